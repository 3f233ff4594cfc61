import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { createProgress } from '../terminal/progress.ts';

/** Help of `--header`. */
export const HEADER_HELP = 'Header of all requests to the upstream, with references to secrets; may be repeated';
/** Help about references to secrets in headers. */
export const HEADER_NOTE = `\
References to secrets are \${env:SERVICE_SECRET_NAME}, a variable of the service, and \${file:NAME}, a file in its
SERVICE_SECRETS_PATH. Quote them, so that the shell does not replace them.`;

/** Option parser that collects headers. Throws {@link Failure}, without the value, for text without a colon. */
export function collectHeader(text: string, so: Readonly<Record<string, string>> = {}): Record<string, string> {
  const at = text.indexOf(':');
  if (at < 1) throw new Failure('invalid value of --header: expected "name: value"');
  return { ...so, [text.slice(0, at).trim()]: text.slice(at + 1).trim() };
}

/** Shows the elapsed time on a terminal while work is running. */
export async function withProgress<T>(context: Context, what: string, work: Promise<T>): Promise<T> {
  const { stderr } = context.terminal;
  if (!stderr.isTerminal) return work;
  const progress = createProgress(stderr, context.options().plain);
  const started = performance.now();
  const timer = setInterval(() => {
    progress.update(`${what}, ${Math.round((performance.now() - started) / 1000)} s`);
  }, 250);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    progress.end();
  }
}
