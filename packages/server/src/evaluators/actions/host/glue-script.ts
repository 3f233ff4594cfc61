/** How jco exports what it makes. */
const EXPORTED = /^export (?=function |const )/gm;

/**
 * Glue as a script: a function of what it has besides ECMAScript's own, whose value makes instances. Strict, as the
 * module was.
 */
export function glueScript(glue: string): string {
  const body = glue.replace(EXPORTED, '');
  return `(function (TextDecoder, TextEncoder) { 'use strict'; ${body}\nreturn instantiate; })`;
}
