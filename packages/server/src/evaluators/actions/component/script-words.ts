/** Words of JavaScript that cannot be names or mean something else when they are, and globals with a small letter. */
const words = new Set(
  `abstract arguments as async await boolean break byte case catch char class const continue debugger default delete do
  double else enum eval export extends final finally float for from function get goto if implements import in instanceof
  int interface let long native new null of package private protected public return set short static super switch
  synchronized then this throw throws transient true try false typeof var void volatile while with yield prototype
  undefined globalThis global process console isFinite isNaN parseFloat parseInt escape unescape decodeURI encodeURI
  decodeURIComponent encodeURIComponent fetch queueMicrotask structuredClone atob btoa setTimeout setInterval
  setImmediate clearTimeout clearInterval clearImmediate navigator performance crypto require module exports`.split(
    /\s+/,
  ),
);

/** What the glue calls its own parts; a function of that name would take their place. */
const parts = new RegExp(
  '^(?:(?:exports|imports|memory|module|table|realloc|trampoline|callback|handle|postReturn|arg|ret|vec)\\d+' +
    '|gen|promise|resolve|reject|imports|getCoreModule|instantiate|instantiateCore|runNext|value|done|dv|nan)$',
);

/**
 * Whether a function or interface of this name would, in glue, stand for something of JavaScript's or of the glue's own:
 * glue declares `function isFinite(...)` for an export `is-finite`.
 */
export function isScriptWord(name: string): boolean {
  const [last = ''] = (name.split('/').at(-1) ?? '').split('@');
  const camel = last.toLowerCase().replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  return words.has(camel) || parts.test(camel) || camel in Object.prototype;
}
