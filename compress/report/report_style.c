/* What report.html looks like, and the little that it does. Nothing is loaded from anywhere, which
 * the policy in its head says to the browser, too; without the script all is there and readable. */
#include <string.h>

#include "compress/report/report_internal.h"

static const char *const style[] = {
    ":root{color-scheme:light dark;--fg:#1b1b1b;--bg:#fff;--card:#f4f5f7;--line:#d5d8dc;",
    "--dim:#5c6166;--mark:#fff3bf;--bar:#31688e}",
    "@media(prefers-color-scheme:dark){:root{--fg:#e6e6e6;--bg:#16181c;--card:#20242a;",
    "--line:#3a4047;--dim:#a2a8af;--mark:#5b4a00;--bar:#6db0d8}}",
    "*{box-sizing:border-box}",
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);",
    "max-width:72em;margin:1.5em auto;padding:0 1em;overflow-wrap:anywhere}",
    "h1{font-size:1.4em;margin:.2em 0}h2{font-size:1.15em;margin:2em 0 .4em}",
    "h3{font-size:1em;margin:1.2em 0 .3em}p{margin:.4em 0}.dim{color:var(--dim)}",
    "code,pre{font:13px/1.45 ui-monospace,monospace}",
    "pre{border:1px solid var(--line);padding:.8em;overflow:auto}",
    ".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(13em,1fr));gap:.7em;",
    "margin:1em 0}",
    ".card{background:var(--card);border:1px solid var(--line);border-radius:6px;",
    "padding:.6em .9em;min-width:0}",
    ".card b{display:block;font-size:1.2em;line-height:1.35}",
    ".card i{font-style:normal;color:var(--dim);font-size:.9em;display:block}",
    ".warn{border-left:4px solid #d08700}",
    ".scroll{overflow-x:auto}",
    "table{border-collapse:collapse;margin:.6em 0;overflow-wrap:normal}",
    "th,td{border:1px solid var(--line);padding:.2em .6em;text-align:right}",
    "th{background:var(--card);font-weight:600}",
    "th:first-child,td:first-child,.left,.made td{text-align:left}",
    ".stack{display:flex;height:1.6em;margin:.15em 0 .5em;background:var(--card)}",
    ".stack i{display:block;min-width:1px;border-right:1px solid var(--bg)}",
    ".swatch{display:inline-block;width:.9em;height:.9em;margin-right:.5em;vertical-align:-.1em}",
    ".hist{display:flex;align-items:flex-end;height:8em;gap:1px;",
    "border-bottom:1px solid var(--line);max-width:44rem}",
    ".hist i{flex:1;background:var(--bar);display:block}",
    ".axis{position:relative;height:1.5em;max-width:44rem;font-size:.8em;color:var(--dim)}",
    ".axis span{position:absolute;white-space:nowrap;border-left:1px solid var(--dim);",
    "padding-left:.2em}",
    ".map table{font-size:12px;border-spacing:1px;border-collapse:separate}",
    ".map th,.map td{border:0;padding:.2em .6em;text-align:center;background:none}",
    ".map th:first-child{text-align:right;font-weight:400;color:var(--dim)}",
    ".ramp{height:.9em;max-width:32rem;border:1px solid var(--line)}",
    ".ends{display:flex;justify-content:space-between;max-width:32rem;font-size:.85em}",
    ".sample{white-space:pre-wrap;background:var(--card);border:1px solid var(--line);",
    "border-radius:6px;padding:.5em .8em;margin:.3em 0}",
    ".sample small{display:block;color:var(--dim)}.prompt{color:var(--dim)}",
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(20em,1fr));gap:0 .6em}",
    "mark{background:var(--mark);color:inherit;border-bottom:2px solid #d08700}",
    "details{border-bottom:1px solid var(--line)}summary{cursor:pointer;padding:.25em 0}",
    ".fold td:first-child,.fold th:first-child{display:none}.fold .name,.all "
    ".name{text-align:left}",
    ".sort td{white-space:nowrap}.sort td:last-child{white-space:normal;min-width:12em}",
    ".sort th{cursor:pointer}.sort th[aria-sort=ascending]::after{content:' \\2191'}",
    ".sort th[aria-sort=descending]::after{content:' \\2193'}",
    "button{font:inherit;padding:.2em .8em}",
    "@media(max-width:600px){body{font-size:14px;padding:0 .7em}th,td{padding:.15em .4em}",
    "summary span{display:block}.map table{font-size:10px;border-spacing:0}",
    ".map th,.map td{padding:.15em .25em}}",
    "@media print{details>*{display:block}}",
};

void pare__report_style(pare_text_out *t)
{
    pare__text_put(t, "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                      "<style>\n");
    for (size_t i = 0; i < sizeof style / sizeof *style; i++) {
        pare__text_add(t, style[i], strlen(style[i]));
        pare__text_add(t, "\n", 1);
    }
    pare__text_put(t, "</style>\n");
}

/* Rows of the folded tables are moved to one table and back; headings sort their table. Numbers go
 * by value, cells without one last. */
static const char *const script[] = {
    "(()=>{",
    "const all=document.getElementById('all');if(!all)return;",
    "const fold=document.getElementById('fold'),bar=document.getElementById('bar');",
    "const rows=[...fold.querySelectorAll('tbody tr')],home=rows.map(r=>r.parentNode);",
    "const button=bar.querySelector('button');bar.hidden=false;",
    "button.onclick=()=>{const one=all.hidden;",
    "rows.forEach((r,i)=>(one?all.tBodies[0]:home[i]).append(r));",
    "all.hidden=!one;fold.hidden=one;",
    "button.textContent=one?'Fold by block':'All in one table'};",
    "const value=(r,c)=>{const s=r.cells[c].textContent,n=parseFloat(s);",
    "return c===1||isNaN(n)?s:n};",
    "document.querySelectorAll('.sort th').forEach(th=>{th.tabIndex=0;",
    "const sort=()=>{const table=th.closest('table'),c=th.cellIndex;",
    "const down=th.ariaSort==='ascending'?-1:1;",
    "[...table.rows[0].cells].forEach(o=>o.ariaSort=null);",
    "th.ariaSort=down<0?'descending':'ascending';",
    "table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a,b)=>{",
    "const x=value(a,c),y=value(b,c);if(x===''||y==='')return(x==='')-(y==='');",
    "return down*(typeof x==='number'&&typeof y==='number'?x-y:",
    "String(x).localeCompare(String(y),undefined,{numeric:true}))}))};",
    "th.onclick=sort;th.onkeydown=e=>{if(e.key==='Enter')sort()}})",
    "})()",
};

void pare__report_script(pare_text_out *t)
{
    pare__text_put(t, "<script>\n");
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        pare__text_add(t, script[i], strlen(script[i]));
        pare__text_add(t, "\n", 1);
    }
    pare__text_put(t, "</script>\n");
}
