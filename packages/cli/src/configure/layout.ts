/** How a JSON text is laid out, so that what is added looks like what is there. */
export interface Layout {
  /** One level of indentation. */
  readonly unit: string;
  readonly lineBreak: '\n' | '\r\n';
}

const INDENTED_LINE = /^([ \t]+)\S/m;

/** Reads the layout off the first line break and the first indented line; two blanks and `\n` where there is none. */
export function detectLayout(text: string): Layout {
  return {
    unit: INDENTED_LINE.exec(text)?.[1] ?? '  ',
    lineBreak: /\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n',
  };
}

/** The blanks and tabs at the beginning of the line that an offset is in. */
export function indentationAt(text: string, offset: number): string {
  const line = text.slice(text.lastIndexOf('\n', offset - 1) + 1);
  return /^[ \t]*/.exec(line)?.[0] ?? '';
}

/** A value as it is written on lines of its own, the first of which begins after `indentation`. */
export function formatValue(value: unknown, { unit, lineBreak }: Layout, indentation: string): string {
  return JSON.stringify(value, null, unit).replaceAll('\n', lineBreak + indentation);
}
