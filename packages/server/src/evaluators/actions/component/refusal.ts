/**
 * Why a file is no action. The message is for the operator who reads the warning of `PUT /evaluators`: it says what is
 * wrong and what to do, and carries nothing of the file unescaped.
 */
export class ComponentRefusal extends Error {
  constructor(what: string, options?: ErrorOptions) {
    super(shown(what, 200), options);
  }
}

/** A text of a file or of a tool as a message may carry it: printable ASCII only, cut at `most` characters. */
export function shown(text: string, most: number): string {
  const cut = text.slice(0, most + 1);
  const escaped = cut.replace(/[^\x20-\x7e]/g, (unit) => `\\u{${unit.charCodeAt(0).toString(16)}}`);
  return escaped.length > most ? `${escaped.slice(0, most - 3)}...` : escaped;
}

/** A name of a file in double quotes, at most 64 characters of it. */
export function quoted(name: string): string {
  return `"${shown(name, 64)}"`;
}
