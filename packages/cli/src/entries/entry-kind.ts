import type { Client } from '@sluice/contract/client';
import type { Command } from 'commander';
import type { Column } from '../output/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { EntryApi } from './entry-calls.ts';

/** What the rows of every list have. */
export interface ListRow {
  readonly name: string;
  readonly namespace: string;
  readonly forward?: string | undefined;
  readonly shadowed?: true | undefined;
  readonly description: string;
}

/** The query of a list. */
export interface ListQuery {
  readonly namespace?: string | undefined;
  readonly include?: 'shadowed';
}

/** What one kind of entry brings to its group of commands, which is the same for all kinds (decisions 1.8). */
export interface EntryKind<Row extends ListRow, Fields> extends EntryApi {
  /** What they are, for help. */
  readonly description: string;
  readonly list: (client: Client, query: ListQuery) => Promise<readonly Row[]>;
  /** What is listed, where that is more than the plural of the kind. */
  readonly listed?: string;
  /** Columns of the list that only this kind has. */
  readonly columns: readonly Column<Row>[];
  /** The command that registers one by hand: `add`. */
  readonly add: string;
  /** Adds the options of this kind's fields to `add` and `edit`. Namespace, labels and file are there already. */
  readonly addFieldOptions: (command: Command) => Command;
  /** An entry's body: the given one with the fields over it. Labels are not its business. */
  readonly applyFields: (
    entry: Readonly<Record<string, unknown>>,
    fields: Fields,
    terminal: Terminal,
  ) => Promise<Record<string, unknown>> | Record<string, unknown>;
  /** Stands behind the help of `add`. */
  readonly addHelp: string;
  /** Stands behind the help of `edit`. */
  readonly editHelp?: string;
}
