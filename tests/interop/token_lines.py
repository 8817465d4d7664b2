"""Random lines of Unicode from a fixed rule, the same as in tests/data/token_lines.h."""

MASK = (1 << 64) - 1

BLOCKS = [
    (0x00A1, 0x5F), (0x0100, 0x80), (0x0370, 0x90), (0x0400, 0x100), (0x0531, 0x26), (0x05D0, 0x1B),
    (0x0620, 0x40), (0x0905, 0x35), (0x0E01, 0x3A), (0x10D0, 0x2B), (0x1100, 0x100), (0x1E00, 0x100),
    (0x1F00, 0x16), (0x2000, 0x65), (0x2070, 0x02), (0x20A0, 0x20), (0x2100, 0x8C), (0x2190, 0x100),
    (0x2500, 0x200), (0x3041, 0x56), (0x30A0, 0x60), (0x3400, 0x100), (0x4E00, 0x5000),
    (0xAC00, 0x2BA4), (0xE000, 0x100), (0xF900, 0x100), (0xFB00, 0x07), (0xFF01, 0x5E),
    (0x10330, 0x1B), (0x1D400, 0x50), (0x1F300, 0x300), (0x1F600, 0x50), (0x20000, 0x1000),
    (0x0600, 0x06), (0x0000, 0x21), (0x007F, 0x22), (0xFFF9, 0x05),
]

TEXTS = [
    "<s>", "</s>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|begin_of_text|>", "<|eot_id|>",
    "<0x0A>", "\u2581", "\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd",
    "'s", "'T", "'re", "'VE", "'ll", "\u2019s", "\ufb01", "\u00bd", "\u2167", "...", "://", "\\n",
]

SPACES = [" ", " ", " ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", "\n\n"]


class Line:
    def __init__(self, i):
        self.state = (i + 1) * 0x9E3779B97F4A7C15 & MASK
        self.text = "".join(self.part() for _ in range(1 + self.pick(12)))

    def pick(self, n):
        s = self.state
        s = (s ^ s << 13) & MASK
        s ^= s >> 7
        self.state = s = (s ^ s << 17) & MASK
        return (s >> 33) % n

    def part(self):
        kind = self.pick(16)
        if kind < 6:
            out = " " if self.pick(4) else ""
            first = "a" if self.pick(4) else "A"
            n = 1 + self.pick(9)
            return out + "".join(chr(ord("a" if i else first) + self.pick(26)) for i in range(n))
        if kind == 6:
            return "".join(chr(ord("0") + self.pick(10)) for _ in range(1 + self.pick(7)))
        if kind == 7:
            return "".join(chr(ord("!") + self.pick(15)) for _ in range(1 + self.pick(4)))
        if kind == 8:
            space = SPACES[self.pick(len(SPACES))]
            return space * (1 + self.pick(5))
        if kind == 9:
            return "e" + "".join(chr(0x300 + self.pick(0x40)) for _ in range(1 + self.pick(3)))
        if kind < 12:
            return TEXTS[self.pick(len(TEXTS))]
        first, count = BLOCKS[self.pick(len(BLOCKS))]
        return "".join(chr(first + self.pick(count)) for _ in range(1 + self.pick(6)))


def lines(count=10000):
    return [Line(i).text for i in range(count)]


def digest(rows):
    """FNV-1a over the ids of each line and its number of ids, as 32-bit words."""
    h = 0xCBF29CE484222325
    for ids in rows:
        for x in [*ids, len(ids)]:
            h = (h ^ x) * 0x100000001B3 & MASK
    return "%016x" % h
