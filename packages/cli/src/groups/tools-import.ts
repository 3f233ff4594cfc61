import type { ToolInput } from '@sluice/contract';
import { ApiError, type Client, entryParams, unwrap } from '@sluice/contract/client';
import { DEFAULT_NAMESPACE } from '@sluice/contract/values';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { readDocument, tryValidate } from '../files/document.ts';
import { createProgress } from '../terminal/progress.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** Maximum number of listed findings. */
const MAX_FINDINGS = 20;

/**
 * Parses tools: an array, or an object with `tools`. Validates all of them like the service. Throws {@link Failure} with all
 * findings; duplicate names in a namespace are findings too.
 */
export async function parseTools(document: JsonValue, source: string): Promise<ToolInput[]> {
  const items = isJsonObject(document) ? document.tools : document;
  if (!Array.isArray(items)) throw new Failure(`${source}: expected an array of tools, or an object with "tools"`);
  const tools: ToolInput[] = [];
  const findings: string[] = [];
  const positions = new Map<string, number>();
  for (const [at, item] of items.entries()) {
    const result = await tryValidate(({ toolInput }) => toolInput, item);
    if ('findings' in result) {
      findings.push(...result.findings.map((finding) => `${describeItem(item, at)}: ${finding}`));
      continue;
    }
    const { name, namespace = DEFAULT_NAMESPACE } = result.value;
    const key = `${namespace}/${name}`;
    const earlier = positions.get(key);
    if (earlier !== undefined) findings.push(`${describeItem(item, at)}: same name as tool ${earlier} in ${namespace}`);
    else positions.set(key, at + 1);
    tools.push(result.value);
  }
  if (findings.length === 0) return tools;
  const more = findings.length > MAX_FINDINGS ? [`and ${findings.length - MAX_FINDINGS} more`] : [];
  throw new Failure(`${source}: invalid, nothing was sent`, {
    notes: [...findings.slice(0, MAX_FINDINGS), ...more],
  });
}

/** Describes an item by its number, counted from one, and its name. */
function describeItem(item: JsonValue, at: number): string {
  const name = isJsonObject(item) && typeof item.name === 'string' ? ` (${item.name})` : '';
  return `tool ${at + 1}${name}`;
}

/** A tool that the service rejected. */
export interface FailedTool {
  readonly name: string;
  readonly namespace: string;
  readonly reason: string;
}

/** A warning of the service about a tool. */
interface ToolWarning {
  readonly name: string;
  readonly namespace: string;
  readonly message: string;
}

/** Progress or result of an import. */
export interface ImportCounts {
  readonly created: number;
  readonly updated: number;
  /** Existing tools that were skipped. */
  readonly existing: number;
  readonly failed: readonly FailedTool[];
  /** Warnings of the service about tools that it stored. */
  readonly warnings: readonly ToolWarning[];
  /** Tools that were not sent or got no response, after Ctrl-C or because of {@link stoppedBy}. */
  readonly unfinished: number;
  /** Error that ended the import: the service is unavailable or the credentials were rejected. */
  readonly stoppedBy: unknown;
}

/** Settings of {@link sendTools}. */
export interface SendOptions {
  readonly client: Client;
  /** Replaces existing tools. */
  readonly update: boolean;
  readonly interrupted: AbortSignal;
  /** Called after each tool. */
  readonly onProgress: (counts: ImportCounts) => void;
}

/** Maximum number of concurrent requests. The service commits all waiting requests in one disk write. */
const MAX_IN_FLIGHT = 32;

/** Registers all tools. A rejected tool does not stop the others. */
async function sendTools(tools: readonly ToolInput[], sending: SendOptions): Promise<ImportCounts> {
  const counted = { created: 0, updated: 0, existing: 0, unfinished: tools.length };
  const failed: FailedTool[] = [];
  let stoppedBy: unknown;
  const warnings: ToolWarning[] = [];
  const counts = (): ImportCounts => ({ ...counted, failed, warnings, stoppedBy });
  const waiting = tools.values();
  /** Sends the next tool; false when there is none or the import has stopped. */
  const sendNext = async (): Promise<boolean> => {
    if (stoppedBy !== undefined || sending.interrupted.aborted) return false;
    const { value: tool, done } = waiting.next();
    if (done) return false;
    const { name, namespace = DEFAULT_NAMESPACE } = tool;
    try {
      const { result, messages } = await sendTool(tool, sending);
      counted[result] += 1;
      warnings.push(...messages.map((message) => ({ name, namespace, message })));
    } catch (error) {
      if (!(error instanceof ApiError) || error.code === undefined) {
        stoppedBy ??= error;
        return false;
      }
      failed.push({ name, namespace, reason: `${error.message} (${error.status} ${error.code})` });
    }
    counted.unfinished -= 1;
    sending.onProgress(counts());
    return true;
  };
  const sendAll = async (): Promise<void> => {
    while (await sendNext());
  };
  // The first request finds out whether the service is available.
  if (await sendNext()) await Promise.all(Array.from({ length: MAX_IN_FLIGHT }, sendAll));
  return counts();
}

/** What became of a tool, and the warnings of the service. */
interface SentTool {
  readonly result: 'created' | 'updated' | 'existing';
  readonly messages: readonly string[];
}

async function sendTool(tool: ToolInput, { client, update }: SendOptions): Promise<SentTool> {
  try {
    const call = client.POST('/api/v1/tools', { body: tool });
    await unwrap(call);
    return { result: 'created', messages: messagesOf((await call).data?.warnings) };
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'CONFLICT') throw error;
    if (!update) return { result: 'existing', messages: [] };
    const namespace = tool.namespace ?? DEFAULT_NAMESPACE;
    const params = entryParams(tool.name, { namespace, unknown_members: 'keep' as const });
    const call = client.PUT('/api/v1/tools/{name}', { params, body: tool });
    await unwrap(call);
    return { result: 'updated', messages: messagesOf((await call).data?.warnings) };
  }
}

function messagesOf(warnings: readonly { readonly message: string }[] = []): string[] {
  return warnings.map(({ message }) => message);
}

/** Maximum number of printed reasons, and of warnings; `--output json` contains all. */
const MAX_REASONS = 5;

interface ImportOptions {
  readonly update?: boolean;
  readonly dryRun?: boolean;
}

type DryRunCounts = Pick<ImportCounts, 'created' | 'updated' | 'existing'>;

/** Counts what an import would do, unless the service rejects a tool. */
async function countTools(client: Client, tools: readonly ToolInput[], update: boolean): Promise<DryRunCounts> {
  const key = ({ name, namespace = DEFAULT_NAMESPACE }: Pick<ToolInput, 'name' | 'namespace'>) =>
    `${namespace}/${name}`;
  const known = new Set((await unwrap(client.GET('/api/v1/tools'))).map(key));
  const existing = tools.filter((tool) => known.has(key(tool))).length;
  return {
    created: tools.length - existing,
    ...(update ? { updated: existing, existing: 0 } : { updated: 0, existing }),
  };
}

function printDryRun({ output }: Context, counts: DryRunCounts): void {
  const { created, updated, existing } = counts;
  output().done({ dryRun: true, ...counts }, `would create ${created}, update ${updated}, skip ${existing} existing`);
}

/** `sluice tools import <file>`. */
export function importCommand(context: Context): Command {
  return new Command('import')
    .description('Import tools from a file')
    .argument('<file>', 'Array of tools, or {"tools": [...]} (JSON or YAML), "-" for standard input')
    .option('--update', 'Replace existing tools instead of skipping them')
    .option('--dry-run', 'Print the number of new and existing tools without sending them')
    .addHelpText(
      'after',
      `
All tools are validated before the first one is sent.

Example:
  sluice tools list --output json --host http://old:8080 | sluice tools import - --host http://new:8080`,
    )
    .action(async (file: string, { update = false, dryRun = false }: ImportOptions) => {
      const { terminal } = context;
      const { plain } = context.options();
      const tools = await parseTools(await readDocument(file, terminal), file === '-' ? 'standard input' : file);
      const client = await context.connect();
      if (dryRun) return printDryRun(context, await countTools(client, tools, update));
      const progress = createProgress(terminal.stderr, plain);
      const onProgress = (counts: ImportCounts) =>
        progress.update(`${countHandled(counts)} of ${counted(tools.length, 'tool')}: ${formatCounts(counts)}`);
      const counts = await sendTools(tools, { client, update, interrupted: terminal.interrupted, onProgress });
      progress.end();

      const { created, updated, existing, failed, unfinished, warnings, stoppedBy } = counts;
      context
        .output()
        .done(
          { created, updated, existing, failed: failed.length, unfinished, failures: failed, warnings },
          formatCounts(counts),
        );
      const writeLine = (line: string) => terminal.stderr.write(`${sanitizeLine(line)}\n`);
      for (const { name, namespace, message } of warnings.slice(0, MAX_REASONS))
        writeLine(`warning: ${name} in ${namespace}: ${message}`);
      if (warnings.length > MAX_REASONS)
        writeLine(`and ${counted(warnings.length - MAX_REASONS, 'more warning')}; --output json lists all`);
      for (const { name, namespace, reason } of failed.slice(0, MAX_REASONS))
        writeLine(`  ${name} in ${namespace}: ${reason}`);
      if (failed.length > MAX_REASONS) writeLine(`  and ${failed.length - MAX_REASONS} more; --output json lists all`);
      if (existing > 0 && failed.length === 0) writeLine('  existing tools were skipped; use --update to replace them');
      if (stoppedBy !== undefined && !terminal.interrupted.aborted) throw stoppedBy;
      if (failed.length > 0) throw new Exit(1);
    });
}

function countHandled({ created, updated, existing, failed }: ImportCounts): number {
  return created + updated + existing + failed.length;
}

function formatCounts({ created, updated, existing, failed, unfinished }: ImportCounts): string {
  const rest = unfinished > 0 ? `, unfinished ${unfinished}` : '';
  return `created ${created}, updated ${updated}, existing ${existing}, failed ${failed.length}${rest}`;
}
