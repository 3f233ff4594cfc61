import { unwrapPage } from '@sluice/contract/client';
import type { Command } from 'commander';
import type { Context } from '../context.ts';
import { TOOL_API } from '../entries/entry-api.ts';
import { type EntryKind, entryGroup, type ListRow } from '../entries/entry-group.ts';
import { addProvisionOptions, applyProvisionFields, type ProvisionFields } from '../entries/entry-options.ts';
import { Failure } from '../failure.ts';
import { parseDocument, readDocument } from '../files/document.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { importCommand } from './tools-import.ts';

const PARAMETER_TYPES: readonly string[] = ['string', 'number', 'integer', 'boolean', 'object', 'array'];

/** A tool argument: `-p city:string,Name of the city`. */
interface Parameter {
  readonly name: string;
  readonly type: string;
  readonly description: string;
}

/** Field options of a tool. */
export interface ToolFields extends ProvisionFields {
  readonly name?: string;
  readonly description?: string;
  readonly uri?: string;
  readonly type?: string;
  readonly inputSchema?: string;
  readonly param?: readonly Parameter[];
  readonly required?: readonly string[];
}

/** Adds the options of {@link ToolFields} to a command. */
function addToolOptions(command: Command): Command {
  return addProvisionOptions(
    command
      .option('-n, --name <name>', 'Tool name')
      .option('-d, --description <text>', 'Tool description')
      .option('-u, --uri <uri>', 'Upstream MCP server URL, or URI of the tool in its capability service')
      .option('--type <type>', 'Tool type: mcp-forward, or the name of a service entry')
      .option('--input-schema <json or file>', 'JSON Schema of the arguments, inline or in a file (JSON or YAML)')
      .option('-p, --param <name:type,description>', 'Tool argument; may be repeated', collectParameter)
      .option('-r, --required <name>', 'Required argument; may be repeated', collectValue),
  );
}

/**
 * Returns the tool with the field options applied; arguments are added to existing ones. Throws {@link Failure} for an
 * unreadable schema and for a required argument that is not in the schema.
 */
async function applyToolFields(
  tool: Readonly<Record<string, unknown>>,
  { name, description, uri, type, inputSchema, param = [], required = [], ...provisioned }: ToolFields,
  terminal: Terminal,
): Promise<Record<string, unknown>> {
  const schema = inputSchema === undefined ? tool.input_schema : await readSchema(inputSchema, terminal);
  return {
    ...applyProvisionFields(tool, provisioned),
    ...(name !== undefined && { name }),
    ...(description !== undefined && { description }),
    ...(uri !== undefined && { uri }),
    ...(type !== undefined && { toolType: type }),
    input_schema: addParameters(objectOr(schema, { type: 'object' }), param, required),
  };
}

function addParameters(schema: object, parameters: readonly Parameter[], required: readonly string[]): object {
  if (parameters.length === 0 && required.length === 0) return schema;
  const before = 'properties' in schema ? objectOr(schema.properties, {}) : {};
  const added = parameters.map(({ name, type, description }) => [name, { type, ...(description && { description }) }]);
  const properties = { ...before, ...Object.fromEntries(added) };
  const unknown = required.find((name) => !Object.hasOwn(properties, name));
  if (unknown !== undefined) throw new Failure(`--required ${unknown}: the tool has no such argument; add it with -p`);
  const already = 'required' in schema && Array.isArray(schema.required) ? schema.required : [];
  const all = [...new Set([...already, ...required])];
  return { ...schema, properties, ...(all.length > 0 && { required: all }) };
}

async function readSchema(text: string, terminal: Terminal): Promise<unknown> {
  return text.trimStart().startsWith('{') ? parseDocument(text, '--input-schema') : readDocument(text, terminal);
}

/** A schema that is not an object is replaced here or rejected by the validation. */
function objectOr(value: unknown, otherwise: object): object {
  return typeof value === 'object' && value !== null ? value : otherwise;
}

function collectParameter(text: string, so: readonly Parameter[] = []): Parameter[] {
  const [, name = '', type = 'string', description = ''] = /^([^:]+)(?::([^,]*))?(?:,(.*))?$/s.exec(text) ?? [];
  if (name === '' || !PARAMETER_TYPES.includes(type)) {
    throw new Failure(`-p ${text}: expected name:type,description with one of the types ${PARAMETER_TYPES.join(', ')}`);
  }
  return [...so, { name, type, description }];
}

function collectValue(text: string, so: readonly string[] = []): string[] {
  return [...so, text];
}

/** `sluice tools`. */
export function toolsCommand(context: Context): Command {
  return entryGroup(context, TOOL).addCommand(importCommand(context));
}

type ToolRow = ListRow & { readonly toolType: string };

const TOOL: EntryKind<ToolRow, ToolFields> = {
  ...TOOL_API,
  description: 'Manage tools',
  list: (client, query) => unwrapPage(client.GET('/api/v1/tools', { params: { query } })),
  columns: [{ title: 'TYPE', value: ({ toolType }) => toolType }],
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
