import type { Spread } from './statistics.ts';

/** Formats of figures. */
export const whole = (value: number) => Math.round(value).toLocaleString('en-US');
export const tenths = (value: number) => value.toFixed(1);
export const hundredths = (value: number) => value.toFixed(2);
export const thousandths = (value: number) => value.toFixed(3);
/** In bold type, where it really is to be. */
export const bold = (text: string, really: boolean) => (really && text !== '' ? `**${text}**` : text);
/** As a piece of code. */
export const code = (name: string) => `\`${name}\``;

/** The median, and the least and the greatest where they differ; empty for nothing. */
export function range(values: Spread | undefined, format: (value: number) => string): string {
  if (values === undefined) return '';
  const { median, least, greatest } = values;
  return least === greatest ? format(median) : `${format(median)} (${format(least)}-${format(greatest)})`;
}

/** A Markdown table whose columns are padded, so that it reads well in a terminal too. */
export function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, 3, ...body.map((cells) => cells[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]) =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width)).join(' | ')} |`;
  return [line(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...body.map(line)].join('\n');
}
