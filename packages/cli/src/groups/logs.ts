import { unwrap, unwrapStream } from '@sluice/contract/client';
import { LOG_CAPACITY, LOG_LEVELS } from '@sluice/contract/values';
import { Command, Option } from 'commander';
import { EVENT_STREAM } from '../connection/connect.ts';
import { type FollowedStream, followStream, printStatus, readEvents } from '../connection/follow.ts';
import type { Context } from '../context.ts';
import { parsePositive } from '../entries/list-pages.ts';
import { sanitizeText } from '../terminal/text.ts';

interface LogsOptions {
  readonly follow?: true;
  readonly level?: (typeof LOG_LEVELS)[number];
  readonly limit?: string;
}

/** `sluice logs`: the latest lines of the log of a running service. */
export function logsCommand(context: Context): Command {
  return new Command('logs')
    .description('Print the latest lines of the log of the service, or follow it')
    .option('-f, --follow', 'Print new lines too, as they are written')
    .addOption(new Option('--level <level>', 'Only lines at least as severe (default: all)').choices(LOG_LEVELS))
    .option('--limit <n>', `Number of lines, up to ${LOG_CAPACITY} (default: all that are stored)`, parsePositive)
    .addHelpText(
      'after',
      `
The service stores its latest ${LOG_CAPACITY} lines in memory, those that RUST_LOG selects; of several replicas or processes,
those of the one that answers. --output json prints the lines as they are in the log.

Examples:
  sluice logs --level warn
  sluice logs --follow --output json | jq 'select(.target == "service::forward")'`,
    )
    .action(async ({ follow, level, limit }: LogsOptions) => {
      const print = await linePrinter(context);
      if (follow) return followStream(context, new LogStream(context, { level, limit }, print));
      const client = await context.connect();
      const lines = await unwrap(client.GET('/api/v1/logs', { params: { query: { level, limit } } }));
      if (context.output().isStructured) return context.output().payload(lines);
      for (const line of lines) print(JSON.stringify(line));
    });
}

/** Prints lines as the service does on a terminal, or with `--output json` as they are. */
async function linePrinter({ terminal, options, output }: Context): Promise<(line: string) => void> {
  const { stdout } = terminal;
  if (output().isStructured) return (line) => stdout.write(`${sanitizeText(line)}\n`);
  const { textFormat } = await import('@sluice/server/log-text');
  const format = textFormat(stdout.isTerminal && !options().plain && !terminal.env.NO_COLOR);
  return (line) => stdout.write(format(line));
}

/** The log, which resumes after the last line. */
class LogStream implements FollowedStream {
  readonly #context: Context;
  readonly #selection: Omit<LogsOptions, 'follow'>;
  readonly #print: (line: string) => void;
  begun = false;
  listening = false;
  #lastId: string | undefined = undefined;

  constructor(context: Context, selection: Omit<LogsOptions, 'follow'>, print: (line: string) => void) {
    this.#context = context;
    this.#selection = selection;
    this.#print = print;
  }

  async listen(signal: AbortSignal): Promise<void> {
    this.listening = false;
    const { host } = this.#context.options();
    // Connects again each time, because a login may have to be renewed.
    const client = await this.#context.connect();
    const headers = { accept: EVENT_STREAM, ...(this.#lastId !== undefined && { 'last-event-id': this.#lastId }) };
    const { level, limit = String(LOG_CAPACITY) } = this.#selection;
    const params = { query: { level, limit } };
    const path = '/api/v1/logs/notifications';
    const stream = await unwrapStream(client.GET(path, { params, parseAs: 'stream', headers, signal }));
    printStatus(this.#context, this.begun ? 'reconnected' : `following the log of ${host}; press Ctrl-C to stop`);
    this.begun = true;
    this.listening = true;
    for await (const { id, event, data } of readEvents(stream)) {
      if (id !== undefined) this.#lastId = id;
      if (event === 'missed') printStatus(this.#context, `${countOf(data)} lines were missed`);
      else if (data !== '') this.#print(data);
    }
  }
}

function countOf(data: string): string {
  return /^\{"count":(\d+)\}$/.exec(data)?.[1] ?? 'some';
}
