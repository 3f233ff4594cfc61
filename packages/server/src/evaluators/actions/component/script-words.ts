/**
 * Names, in small letters, that glue would give to a function or variable although they mean something else in it: jco
 * evades reserved words but not these. Globals, what every object has, and what whoever awaits something looks for.
 */
const words = new Set(
  `arguments then undefined globalthis global process console isfinite isnan parsefloat parseint escape unescape
  decodeuri encodeuri decodeuricomponent encodeuricomponent fetch queuemicrotask structuredclone atob btoa settimeout
  setinterval setimmediate cleartimeout clearinterval clearimmediate navigator performance crypto require
  constructor prototype hasownproperty isprototypeof propertyisenumerable tolocalestring tostring valueof`.split(/\s+/),
);

/** What the glue calls its own parts. */
const parts = new RegExp(
  '^(?:(?:exports|memory|module|table|realloc|trampoline|callback|handle|handletable|instanceflags|postreturn)\\d+(?:async)?' +
    '|getcoremodule|instantiatecore)$',
);

/**
 * Whether a function, interface or variable of this name would, in glue, stand in the way of something of JavaScript's or
 * of the glue's own: glue declares `function isFinite(...)` for an export `is-finite`, `let undefined` for `a/undefined`.
 */
export function isScriptWord(name: string): boolean {
  const [last = ''] = (name.split('/').at(-1) ?? '').split('@');
  const flat = last.replace(/[^A-Za-z0-9]/g, '').toLowerCase();
  return words.has(flat) || parts.test(flat);
}
