import type { ForwardTest, ForwardTestStep } from '@sluice/contract';
import { ApiError, unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { validated } from '../files/document.ts';
import { createStyle } from '../terminal/terminal.ts';
import { notAnUpstreamUrl } from '../upstream-url.ts';
import { collectHeader, HEADER_HELP, HEADER_NOTE, withProgress } from './forward-options.ts';

interface TestOptions {
  readonly header?: Record<string, string>;
  readonly proxy?: string;
}

/** `sluice forwards test`. */
export function testForwardCommand(context: Context): Command {
  return new Command('test')
    .description('Test the connection to a forward or a URL step by step (exit code 1 if a step fails)')
    .argument('<name|url>', 'Name of a forward, or the URL of an upstream that is not registered')
    .option('--header <name: value>', HEADER_HELP, collectHeader)
    .option('--proxy <url>', 'HTTP proxy for requests to the URL, or "none" to use no proxy')
    .addHelpText(
      'after',
      `
Resolves the host, connects, and reads the lists, from the machine of the service, for at most 5 seconds per step. Stops at
the first step that fails. Executes no tool and registers nothing. --output json has what was sent and received.

${HEADER_NOTE}

Examples:
  sluice forwards test crm
  sluice forwards test http://127.0.0.1:3001/mcp --header 'Authorization: Bearer \${env:SERVICE_SECRET_CRM}'`,
    )
    .action(async (target: string, { header: headers, proxy }: TestOptions) => {
      const isUrl = /^[a-z][a-z\d+.-]*:\/\//i.test(target);
      if (!isUrl && (headers ?? proxy) !== undefined) {
        throw new Failure('--header and --proxy are for a URL: a forward has its own');
      }
      const body = await validated(
        ({ forwardTestInput }) => forwardTestInput,
        isUrl ? { address: target, headers, proxy } : { name: target },
        'test',
      );
      const client = await context.connect();
      const call = unwrap(client.POST('/api/v1/forwards/test', { body })).catch((error: unknown) => {
        if (!(error instanceof ApiError && error.code === 'NOT_FOUND')) throw error;
        throw notAnUpstreamUrl(
          target,
          `${error.message}; expected an http:// or https:// URL, or the name of a forward`,
          (bridge) => `sluice forwards test ${bridge}`,
        );
      });
      const result = await withProgress(context, `testing ${isUrl ? 'the URL' : target}`, call);
      print(result, context);
      if (!result.ok) throw new Exit(1);
    });
}

const COLORS = { ok: 'green', warning: 'yellow', failed: 'red', skipped: 'dim' } as const;

function print(result: ForwardTest, { output, terminal, options }: Context): void {
  const out = output();
  const style = createStyle(terminal.stdout, terminal, options().plain);
  const { steps } = result;
  out.list(
    steps,
    [
      { title: 'STEP', value: ({ step }) => step, cut: 'never' },
      { title: 'STATUS', value: ({ status }) => style(COLORS[status], status) },
      { title: 'MS', value: ({ status, duration }) => (status === 'skipped' ? '-' : String(duration)) },
      { title: 'RESULT', value: resultOf, cut: 'first' },
    ],
    'no steps',
    { payload: result },
  );
  if (out.format !== 'table') return;
  for (const { step, status, message, remedy } of steps) {
    if (status === 'failed' || status === 'warning') out.done({}, `${step}: ${message ?? ''}`);
    // The message of a failed step may contain it.
    if (remedy !== undefined && !message?.endsWith(remedy)) out.done({}, `${step}: ${remedy}`);
  }
}

/** What a step has found; what was received if there is nothing to say about it. */
function resultOf({ message, received = '' }: ForwardTestStep): string {
  return message ?? received;
}
