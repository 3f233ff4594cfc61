import { Command } from 'commander';
import type { Context } from '../context.ts';
import type { Column } from '../output/table.ts';
import type { EntryKind, ListRow } from './entry-kind.ts';
import { requireNamespace } from './new-namespace.ts';

interface ListOptions {
  readonly namespace?: string;
  readonly shadowed?: true;
}

/** `list`: a row per entry. */
export function listCommand<Row extends ListRow, Fields>(context: Context, kind: EntryKind<Row, Fields>): Command {
  const plural = `${kind.kind}s`;
  return new Command('list')
    .description(`List ${kind.listed ?? plural}`)
    .option('-N, --namespace <namespace>', `Only ${plural} in this namespace`)
    .option('--shadowed', 'Include shadowed entries, whose name or location is taken by an earlier entry')
    .action(async ({ namespace, shadowed }: ListOptions) => {
      const client = await context.connect();
      const found = await kind.list(client, { namespace, ...(shadowed && { include: 'shadowed' }) });
      if (found.length === 0) await requireNamespace(client, namespace);
      context.output().list(found, columnsOf(kind, shadowed), `no ${plural}`);
    });
}

/** Says which are shadowed, when those are listed too. */
function columnsOf<Row extends ListRow, Fields>(kind: EntryKind<Row, Fields>, shadowed = false): Column<Row>[] {
  return [
    { title: 'NAME', value: ({ name }) => name, cut: 'never' },
    { title: 'NAMESPACE', value: ({ namespace }) => namespace, cut: 'never' },
    ...kind.columns,
    { title: 'FORWARD', value: ({ forward = '-' }) => forward },
    ...(shadowed ? [{ title: 'SHADOWED', value: (row: Row) => (row.shadowed ? 'yes' : '-') }] : []),
    { title: 'DESCRIPTION', value: ({ description }) => description, cut: 'first' },
  ];
}
