import { Failure } from '../failure.ts';
import type { GlobalOptions } from '../options.ts';
import { createStyle, type Terminal } from '../terminal/terminal.ts';
import { sanitizeJson, sanitizeLine } from '../terminal/text.ts';
import { namesOf, type OutputFormat } from './format.ts';
import { type Column, createRunningTable, formatTable } from './table.ts';
import { formatView } from './view.ts';

/** What a list prints in other formats than a table. */
export interface ListOptions<Row> {
  /** Name of a row for `--output name`; undefined for none. Default: the first column. */
  readonly name?: (row: Row) => string | undefined;
  /** The payload that contains the rows, if it is not a list of them. */
  readonly payload?: unknown;
}

/** Prints results to stdout in the format of `--output`. */
export interface Output {
  readonly format: OutputFormat;
  /** Whether complete payloads are printed, as JSON or YAML. */
  readonly isStructured: boolean;
  /** Prints a list. `none` is printed to stderr when it is empty, for example `no tools`. */
  readonly list: <Row>(
    rows: readonly Row[],
    columns: readonly Column<Row>[],
    none: string,
    options?: ListOptions<Row>,
  ) => void;
  /**
   * Returns a function that prints rows as they arrive: aligned lines under a header, one JSON object per line, YAML
   * documents, or names.
   */
  readonly lines: <Row>(columns: readonly Column<Row>[], name: (row: Row) => string) => (row: Row) => void;
  /** Prints one object with its members. */
  readonly show: (payload: object) => void;
  /** Prints a one-line message about a completed action; with `--output name`, the name of the entry if it has one. */
  readonly done: (payload: unknown, sentence: string) => void;
  /** Prints a payload as JSON or YAML. Numbers are unchanged when it was parsed losslessly. */
  readonly payload: (payload: unknown) => void;
}

/** Formats a payload as YAML. */
export type YamlFormatter = (payload: unknown) => string;

/** The output of one invocation. `toYaml` is required for the format `yaml`; its library loads slowly. */
export function createOutput(
  { output, plain }: Pick<GlobalOptions, 'output' | 'plain'>,
  terminal: Terminal,
  toYaml?: YamlFormatter,
): Output {
  const { stdout } = terminal;
  const style = createStyle(stdout, terminal, plain);
  const isStructured = output === 'json' || output === 'yaml';
  const writeLine = (line: string) => stdout.write(`${sanitizeLine(line)}\n`);
  const writePayload = (payload: unknown) => {
    if (output !== 'yaml') return stdout.write(`${sanitizeJson(JSON.stringify(payload, null, 2))}\n`);
    if (toYaml === undefined) throw new Error('the YAML library is not loaded');
    stdout.write(toYaml(payload));
  };
  return {
    format: output,
    isStructured,
    list: (rows, columns, none, { name = columns[0]?.value, payload = rows } = {}) => {
      if (isStructured) return writePayload(payload);
      // Not on stdout: scripts that count lines find none.
      if (rows.length === 0) return terminal.stderr.write(`${none}\n`);
      if (output === 'table') return stdout.write(formatTable(rows, columns, stdout.columns, style));
      for (const row of rows) {
        const text = name?.(row);
        if (text !== undefined) writeLine(text);
      }
    },
    lines: (columns, name) => {
      if (output === 'json') return (row) => stdout.write(`${sanitizeJson(JSON.stringify(row))}\n`);
      if (output === 'name') return (row) => writeLine(name(row));
      if (output === 'yaml') {
        return (row) => {
          stdout.write('---\n');
          writePayload(row);
        };
      }
      const line = createRunningTable(columns, style);
      return (row) => stdout.write(line(row, stdout.columns));
    },
    show: (payload) => {
      if (isStructured) return writePayload(payload);
      if (output === 'table') return stdout.write(formatView(payload, style));
      const names = namesOf(payload);
      if (names.length === 0) throw new Failure('--output name: the result has no name; use table, json or yaml');
      for (const name of names) writeLine(name);
    },
    done: (payload, sentence) => {
      if (isStructured) return writePayload(payload);
      const names = output === 'name' ? namesOf(payload) : [];
      for (const line of names.length > 0 ? names : [sentence]) writeLine(line);
    },
    payload: writePayload,
  };
}
