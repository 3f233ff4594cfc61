import { ComponentRefusal, quoted } from './refusal.ts';
import { isScriptWord } from './script-words.ts';

const longestName = 512;

/**
 * What names may consist of besides letters and digits. The glue that jco makes pastes names into JavaScript as they
 * are, so nothing is here that ends or interpolates a string (quotes, backslash, backquote, braces), calls anything
 * (parentheses), ends a comment (`*`) or a line. What is here, toolchains use: the Canonical ABI
 * (`cm32p2|wasi:io/poll@0.2|[resource-drop]pollable`, `[async-lift]`), AssemblyScript (`Point#get:x`, `~start`),
 * Swift and Rust (`$s4main`, `a.b`), versions (`0.2.0-rc+1`).
 */
const punctuation = '_.$:/@#[]|-+~<>=,!';

/** All characters that names may have. */
export const allowedCharacters = `ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789${punctuation}`;

const allowed = new Uint8Array(256);
for (const character of allowedCharacters) allowed[character.charCodeAt(0)] = 1;

/** Throws `ComponentRefusal` unless a name may stand in glue; gives it as text. */
export function checkedName(bytes: Uint8Array): string {
  if (bytes.length > longestName) {
    throw new ComponentRefusal(`a name in it has ${bytes.length} bytes; actions may use names of ${longestName}`);
  }
  for (const byte of bytes) {
    if (allowed[byte] === 0) throw refusedName(bytes, `has a character that names in actions may not have`);
  }
  const name = String.fromCharCode(...bytes);
  // In an object literal it would set the prototype instead of a member.
  if (name === '__proto__') throw refusedName(bytes, 'has a meaning of its own in JavaScript');
  // Both begin or end a comment in some place of a script.
  if (name.includes('<!--') || name.includes('-->') || name.includes('//')) {
    throw refusedName(bytes, 'looks like a comment of JavaScript');
  }
  return name;
}

/** The same for what a core module exports: glue may name variables after what comes behind a slash in it. */
export function checkedExport(bytes: Uint8Array): string {
  const name = checkedName(bytes);
  if (name.includes('/') && isScriptWord(name)) throw refusedName(bytes, 'has a meaning of its own in JavaScript');
  return name;
}

function refusedName(bytes: Uint8Array, why: string): ComponentRefusal {
  const name = String.fromCharCode(...bytes.subarray(0, 64));
  return new ComponentRefusal(`the name ${quoted(name)} in it ${why}; rename it and build the action anew`);
}
