import type { Command } from 'commander';
import type { Column } from '../output/table.ts';

/** Options of the lists of tools, resources and prompts. */
export interface ListOptions {
  readonly namespace?: string;
  readonly shadowed?: true;
}

/** Adds {@link ListOptions} to a command. `plural` names what is listed. */
export function addListOptions(command: Command, plural: string): Command {
  return command
    .option('-N, --namespace <namespace>', `only ${plural} of this namespace`)
    .option(
      '--shadowed',
      'also those that are not served, because an entry registered earlier has their name or location',
    );
}

/** The query that the options ask for. */
export function listQuery({ namespace, shadowed }: ListOptions) {
  return { namespace, ...(shadowed && { include: 'shadowed' as const }) };
}

/** Says which are shadowed, when those are listed too. */
export function shadowedColumn<Row extends { readonly shadowed?: true }>({ shadowed }: ListOptions): Column<Row>[] {
  return shadowed ? [{ title: 'SHADOWED', value: (row) => (row.shadowed ? 'yes' : '-') }] : [];
}
