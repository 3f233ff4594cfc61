import { unwrap } from '@sluice/contract/client';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { TOOL_API } from '../entries/entry-calls.ts';
import { entryGroup } from '../entries/entry-group.ts';
import type { EntryKind, ListRow } from '../entries/entry-kind.ts';
import { importCommand } from '../import/import-command.ts';
import { addToolOptions, applyToolFields, type ToolFields } from './tool-fields.ts';

/** `sluice tools` (decisions 1.8). */
export function toolsCommand(context: Context): Command {
  return entryGroup(context, TOOL).addCommand(importCommand(context));
}

type ToolRow = ListRow & { readonly toolType: string };

const TOOL: EntryKind<ToolRow, ToolFields> = {
  ...TOOL_API,
  description: 'Manage tools',
  list: (client, query) => unwrap(client.GET('/api/v1/tools', { params: { query } })),
  columns: [{ title: 'TYPE', value: ({ toolType }) => toolType }],
  add: 'add',
  addFieldOptions: addToolOptions,
  applyFields: applyToolFields,
  addHelp: `Example:
  sluice tools add -n weather -d "Weather of a city" -u http://127.0.0.1:3001/mcp --type mcp-forward \\
    -p "city:string,Name of the city" -r city
  sluice tools add -n forecast -d Forecasts -u weather://forecast --type weather --secrets-uri vault://crm`,
  editHelp: `Without options, the tool is opened in $VISUAL or $EDITOR. Changes to a discovered tool persist across discoveries.

Example:
  sluice tools edit echo --name say --description "Repeats a text"`,
};
