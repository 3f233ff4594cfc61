import { Upload } from '@carbon/icons-react';
import { Button, FileUploaderDropContainer, Tag } from '@carbon/react';
import { DEFAULT_NAMESPACE, type ToolInput, toolInput } from '@sluice/contract';
import { counted } from '@sluice/protocol/text';
import { useQueryClient } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import { useApi } from '../../api/api.ts';
import type { Tool } from '../../api/queries.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { loadModule } from '../../ui/load-module.ts';
import { FormModal } from '../../ui/modal.tsx';
import { messageOf } from '../../ui/notices.tsx';
import { useParameter } from '../../ui/route.ts';
import { useToasts } from '../../ui/toasts.tsx';
import { saveTool } from './entry-kinds.ts';

/** What an import does with a tool of the file. */
interface PlannedTool {
  readonly key: string;
  readonly name: string;
  readonly namespace: string;
  readonly effect: 'Add' | 'Replace' | 'Unchanged' | 'Refuse';
  readonly reason: string;
  readonly tool?: ToolInput;
  readonly before?: Tool;
}

const COLUMNS: readonly Column<PlannedTool>[] = [
  {
    id: 'tool',
    header: 'Tool',
    accessorFn: ({ name }) => name,
    cell: ({ row }) => <InertText text={row.original.name} />,
  },
  { id: 'in', header: 'Namespace', accessorFn: ({ namespace }) => namespace },
  {
    id: 'effect',
    header: 'Effect',
    accessorFn: ({ effect }) => effect,
    cell: ({ row }) => <Tag type={TAGS[row.original.effect]}>{row.original.effect}</Tag>,
  },
  { id: 'reason', header: 'Reason', enableSorting: false, cell: ({ row }) => <InertText text={row.original.reason} /> },
];
const TAGS = { Add: 'green', Replace: 'purple', Unchanged: 'gray', Refuse: 'red' } as const;

/** Requests at the same time; the service commits those that wait together. */
const IN_FLIGHT = 8;

/** Button and dialog that import tools from a file, after showing what will be added, replaced or refused. */
export function ToolImport({ existing }: { readonly existing: readonly Tool[] }) {
  const [open, setOpen] = useParameter('import', { push: true });
  return (
    <>
      <Allowed right="change_registry">
        <Button kind="tertiary" size="md" renderIcon={Upload} onClick={() => setOpen('true')}>
          Import
        </Button>
      </Allowed>
      {open !== '' && <ImportDialog existing={existing} onClose={() => setOpen('')} />}
    </>
  );
}

function ImportDialog({ existing, onClose }: { readonly existing: readonly Tool[]; readonly onClose: () => void }) {
  const { client } = useApi();
  const queries = useQueryClient();
  const toasts = useToasts();
  const [items, setItems] = useState<readonly unknown[]>();
  const [error, setError] = useState<string>();
  const plan = useMemo(() => items && planImport(items, existing), [items, existing]);
  const sent = plan?.filter(({ effect }) => effect === 'Add' || effect === 'Replace') ?? [];

  const read = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    try {
      setItems(await parseTools(file));
      setError(undefined);
    } catch (reason) {
      setItems(undefined);
      setError(messageOf(reason));
    }
  };
  const send = async (planned: readonly PlannedTool[]): Promise<void> => {
    const failed: string[] = [];
    const waiting = planned.values();
    const sendNext = async (): Promise<void> => {
      for (const { name, tool, before } of waiting) {
        if (!tool) continue;
        try {
          await saveTool(client, before, tool);
        } catch (reason) {
          failed.push(`${name}: ${messageOf(reason)}`);
        }
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, sendNext));
    await queries.invalidateQueries({ queryKey: ['tools'] });
    if (failed.length > 0)
      throw new Error(
        `${failed.length} of ${counted(planned.length, 'tool')} failed: ${failed.slice(0, 5).join('; ')}`,
      );
    toasts.show({ kind: 'success', title: `${counted(planned.length, 'tool')} imported` });
  };
  return (
    <FormModal
      heading="Import tools"
      submit={sent.length === 0 ? 'Import' : `Import ${sent.length}`}
      size="lg"
      body={sent.length > 0 ? sent : undefined}
      onSubmit={send}
      onClose={onClose}
    >
      <FileUploaderDropContainer
        labelText="Drop a file here, or choose one: JSON or YAML, a list of tools or an object with tools"
        accept={['.json', '.yaml', '.yml']}
        onAddFiles={(_event, { addedFiles }) => void read(addedFiles[0])}
      />
      {error !== undefined && <p role="alert">{error}</p>}
      {plan && (
        <DataTable
          label="Tools in the file"
          rows={plan}
          columns={COLUMNS}
          rowKey={({ key }) => key}
          empty={<p>The file has no tools.</p>}
        />
      )}
    </FormModal>
  );
}

/** Reads the tools of a file. Throws an Error if it is not a list. */
async function parseTools(file: File): Promise<unknown[]> {
  const { parse } = await loadModule(() => import('yaml'));
  // YAML is a superset of JSON.
  const document: unknown = parse(await file.text());
  const tools = typeof document === 'object' && document !== null && 'tools' in document ? document.tools : document;
  if (Array.isArray(tools)) return tools;
  throw new Error(`${file.name}: expected a list of tools, or an object with "tools"`);
}

function planImport(items: readonly unknown[], existing: readonly Tool[]): PlannedTool[] {
  const registered = new Map(
    existing.filter(({ shadowed }) => !shadowed).map((tool) => [`${tool.namespace}/${tool.name}`, tool]),
  );
  const seen = new Set<string>();
  return items.map((item, index) => {
    const parsed = toolInput.safeParse(item);
    const named = typeof item === 'object' && item !== null && 'name' in item ? String(item.name) : `Tool ${index + 1}`;
    if (!parsed.success) {
      const [issue] = parsed.error.issues;
      const reason = `${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim();
      return { key: String(index), name: named, namespace: '–', effect: 'Refuse', reason };
    }
    const { name, namespace = DEFAULT_NAMESPACE } = parsed.data;
    const id = `${namespace}/${name}`;
    const planned = { key: String(index), name, namespace, tool: parsed.data };
    if (seen.has(id)) return { ...planned, effect: 'Refuse', reason: 'The file has another tool of this name' };
    seen.add(id);
    const before = registered.get(id);
    if (!before) return { ...planned, effect: 'Add', reason: '' };
    if (before.forward !== undefined) {
      return { ...planned, effect: 'Refuse', reason: `Discovered by the forward ${before.forward}` };
    }
    if (isContained(parsed.data, before)) return { ...planned, effect: 'Unchanged', reason: '' };
    return { ...planned, before, effect: 'Replace', reason: '' };
  });
}

/** Whether every member of the input has its value already. */
function isContained(input: ToolInput, tool: Tool): boolean {
  return Object.entries(input).every(([name, value]) => JSON.stringify(tool[name]) === JSON.stringify(value));
}
