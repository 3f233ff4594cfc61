import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { createProgress } from '../terminal/progress.ts';
import { parseTools } from './read-tools.ts';
import { type ImportCounts, sendTools } from './send-tools.ts';

/** Reasons that people get to read; `--output json` has all. */
const MAX_REASONS = 5;

/** `sluice tools import <file>` (decisions 1.8). */
export function importCommand(context: Context): Command {
  return new Command('import')
    .description('Import tools from a file')
    .argument('<file>', 'Array of tools, or {"tools": [...]} (JSON or YAML), "-" for standard input')
    .option('--update', 'Replace existing tools instead of skipping them')
    .addHelpText(
      'after',
      `
All tools are validated before the first one is sent.

Example:
  sluice tools list --output json --host http://old:8080 | sluice tools import - --host http://new:8080`,
    )
    .action(async (file: string, { update = false }: { readonly update?: boolean }) => {
      const { terminal } = context;
      const { plain } = context.options();
      const tools = parseTools(await readDocument(file, terminal), file === '-' ? 'standard input' : file);
      const client = await context.connect();
      const progress = createProgress(terminal.stderr, plain);
      const onProgress = (counts: ImportCounts) =>
        progress.update(`${countHandled(counts)} of ${tools.length} tools: ${formatCounts(counts)}`);
      const counts = await sendTools(tools, { client, update, interrupted: terminal.interrupted, onProgress });
      progress.end();

      const { created, updated, existing, failed, unfinished, stoppedBy } = counts;
      context
        .output()
        .done(
          { created, updated, existing, failed: failed.length, unfinished, failures: failed },
          formatCounts(counts),
        );
      const writeLine = (line: string) => terminal.stderr.write(`${sanitizeLine(line)}\n`);
      for (const { name, namespace, reason } of failed.slice(0, MAX_REASONS))
        writeLine(`  ${name} in ${namespace}: ${reason}`);
      if (failed.length > MAX_REASONS) writeLine(`  and ${failed.length - MAX_REASONS} more; --output json lists all`);
      if (existing > 0 && failed.length === 0)
        writeLine('  existing tools were left as they are; --update replaces them');
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
