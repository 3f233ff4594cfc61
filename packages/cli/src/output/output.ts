import type { GlobalOptions } from '../options.ts';
import { createStyle, type Terminal } from '../terminal/terminal.ts';
import { sanitizeJson, sanitizeLine } from '../terminal/text.ts';
import { type Column, createRunningTable, formatTable } from './table.ts';
import { formatView } from './view.ts';

/** Prints results on standard output: for people, or with `--output json` the payload as it was answered. */
export interface Output {
  readonly format: 'table' | 'json';
  /** Many of a kind. `none` is what people read when there are none, for example `no tools`. */
  readonly list: <Row>(rows: readonly Row[], columns: readonly Column<Row>[], none: string) => void;
  /**
   * Many of a kind that come one by one, for who prints them as they come: a line each, the cells of which are aligned
   * under a head, or one JSON object in a line.
   */
  readonly lines: <Row>(columns: readonly Column<Row>[]) => (row: Row) => void;
  /** One thing with its members. */
  readonly show: (payload: object) => void;
  /** Something was done: one line for people. */
  readonly done: (payload: unknown, sentence: string) => void;
  /** A payload as JSON, whatever the form. Numbers keep their spelling when it was parsed losslessly. */
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
      // Not on standard output: a script that counts lines finds none.
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
