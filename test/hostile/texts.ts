/** A form of JSON that is expensive to parse, scan or store. */
export interface HostileText {
  readonly name: string;
  /** Returns one JSON value of about so many bytes. */
  readonly write: (bytes: number) => string;
}

/** Forms of hostile JSON, from what attackers have sent. */
export const HOSTILE_TEXTS: readonly HostileText[] = [
  { name: 'nested arrays', write: (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2) },
  { name: 'nested objects', write: (bytes) => `${'{"a":'.repeat(bytes / 6)}0${'}'.repeat(bytes / 6)}` },
  { name: 'empty arrays', write: (bytes) => `[${repeated('[]', bytes)}]` },
  { name: 'empty objects', write: (bytes) => `[${repeated('{}', bytes)}]` },
  { name: 'small numbers', write: (bytes) => `[${repeated('1', bytes)}]` },
  { name: 'long numbers', write: (bytes) => `[${repeated('-12345678901234567890.5e-300', bytes)}]` },
  { name: 'short strings', write: (bytes) => `[${repeated('"a"', bytes)}]` },
  { name: 'short escaped strings', write: (bytes) => `[${repeated(String.raw`"\u0061"`, bytes)}]` },
  { name: 'one escaped key', write: (bytes) => String.raw`{"\u0061":1,"b":[${repeated('[]', bytes)}]}` },
  { name: 'many members', write: (bytes) => `{${membersOf(bytes, (at) => `"k${at}":0`)}}` },
  { name: 'many escaped keys', write: (bytes) => `{${membersOf(bytes, (at) => String.raw`"\u006b${at}":0`)}}` },
  { name: 'one key many times', write: (bytes) => `{${repeated('"a":0', bytes)}}` },
  { name: 'many small objects', write: (bytes) => `[${repeated('{"a":{"b":0}}', bytes)}]` },
  { name: 'one long string', write: (bytes) => `"${'a'.repeat(bytes)}"` },
  { name: 'one long escaped string', write: (bytes) => `"${String.raw`\u00e9\n`.repeat(bytes / 8)}"` },
  { name: 'one string of escaped quotes', write: (bytes) => `"${String.raw`\"`.repeat(bytes / 2)}"` },
  { name: 'one long key', write: (bytes) => `{"${'k'.repeat(bytes)}":0}` },
  { name: 'white space', write: (bytes) => `[${repeated(' \t\n\r 1', bytes)}]` },
];

function repeated(element: string, bytes: number): string {
  const count = Math.max(1, Math.floor(bytes / (element.length + 1)));
  return `${`${element},`.repeat(count - 1)}${element}`;
}

function membersOf(bytes: number, memberAt: (index: number) => string): string {
  const parts: string[] = [];
  for (let length = 0, at = 0; length < bytes; at++) {
    const member = memberAt(at);
    parts.push(member);
    length += member.length + 1;
  }
  return parts.join(',');
}

/** Returns the form with this name. */
export function hostileText(name: string, bytes: number): string {
  const form = HOSTILE_TEXTS.find((text) => text.name === name);
  if (!form) throw new Error(`unknown form: ${name}`);
  return form.write(bytes);
}
