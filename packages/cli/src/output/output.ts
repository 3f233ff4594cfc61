import type { GlobalOptions } from '../options.ts';
import { createStyle, type Terminal } from '../terminal/terminal.ts';
import { sanitizeJson, sanitizeLine } from '../terminal/text.ts';
import { type Column, createRunningTable, formatTable } from './table.ts';
import { formatView } from './view.ts';

/** Prints results to stdout as tables, or as JSON with `--output json`. */
export interface Output {
  readonly format: 'table' | 'json';
  /** Prints a list. `none` is printed to stderr when it is empty, for example `no tools`. */
  readonly list: <Row>(rows: readonly Row[], columns: readonly Column<Row>[], none: string) => void;
  /** Returns a function that prints rows as they arrive: aligned lines under a header, or one JSON object per line. */
  readonly lines: <Row>(columns: readonly Column<Row>[]) => (row: Row) => void;
  /** Prints one object with its members. */
  readonly show: (payload: object) => void;
  /** Prints a one-line message about a completed action. */
  readonly done: (payload: unknown, sentence: string) => void;
  /** Prints a payload as JSON. Numbers are unchanged when it was parsed losslessly. */
  readonly json: (payload: unknown) => void;
}

/** The output of one invocation. */
export function createOutput({ output, plain }: GlobalOptions, terminal: Terminal): Output {
  const { stdout } = terminal;
  const style = createStyle(stdout, terminal, plain);
  const json = (payload: unknown) => stdout.write(`${sanitizeJson(JSON.stringify(payload, null, 2))}\n`);
  return {
    format: output,
    list: (rows, columns, none) => {
      if (output === 'json') json(rows);
      else if (rows.length > 0) stdout.write(formatTable(rows, columns, stdout.columns, style));
      // Not on stdout: scripts that count lines find none.
      else terminal.stderr.write(`${none}\n`);
    },
    lines: (columns) => {
      if (output === 'json') return (row) => stdout.write(`${sanitizeJson(JSON.stringify(row))}\n`);
      const line = createRunningTable(columns, style);
      return (row) => stdout.write(line(row, stdout.columns));
    },
    show: (payload) => {
      if (output === 'json') json(payload);
      else stdout.write(formatView(payload, style));
    },
    done: (payload, sentence) => {
      if (output === 'json') json(payload);
      else stdout.write(`${sanitizeLine(sentence)}\n`);
    },
    json,
  };
}
