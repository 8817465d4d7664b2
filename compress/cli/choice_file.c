#include "compress/cli/choice_file.h"

#include "compress/evaluate/choice_items.h"

pare_status pare_choice_measure(pare_cli *cli, const pare_loaded *l, const char *path,
                                pare_choice_result *out)
{
    pare_ctx *const cx = &cli->cx;
    const size_t context = l->model.config.context, positions = l->forward.positions;
    pare_tokenizer *tokenizer;
    pare_choice_texts texts;
    pare_choice_item *item;
    PARE_TRY(pare_choice_read(cx, &cli->arena, path, 0, &texts));
    PARE_TRY(pare_checkpoint_tokenizer(&l->checkpoint, &tokenizer));
    const pare_status s = pare_choice_encode(cx, &cli->arena, tokenizer, &texts,
                                             context < positions ? context : positions, &item);
    pare_tokenizer_free(tokenizer);
    PARE_TRY(s);
    return pare_evaluate_choice(cx, &l->forward, item, texts.count, out);
}
