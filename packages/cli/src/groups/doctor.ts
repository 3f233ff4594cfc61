import type { DiagnosticCheck } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import manifest from '../../package.json' with { type: 'json' };
import { explainError } from '../connection/explain-error.ts';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { createFetch } from '../http/fetch.ts';
import { resolveEndpoint } from '../mcp/target.ts';
import { createStyle } from '../terminal/terminal.ts';

/** Version of Node.js on which everything runs. */
const REQUIRED_NODE = 26;

/** `sluice doctor`: checks this machine, the service and everything that it depends on. */
export function doctorCommand(context: Context): Command {
  return new Command('doctor')
    .description('Check the service and what it depends on (exit code 1 if anything must be fixed)')
    .option('--mcp-url <url>', 'MCP listener (env: SLUICE_MCP_URL; default: the host of --host with port 8081)')
    .addHelpText(
      'after',
      `
Checks names, connections and certificates of all configured addresses, from the machine of the service, and the
registry folder, limits, clock, proxy headers and evaluators of the service. Sends no credentials to these addresses.

Example:
  sluice doctor --output json`,
    )
    .action(async ({ mcpUrl }: { readonly mcpUrl?: string }) => {
      const checks = [checkPlatform(), ...(await checkService(context)), await checkMcpListener(mcpUrl, context)];
      print(checks, context);
      if (checks.some(({ status }) => status === 'failed')) throw new Exit(1);
    });
}

function checkPlatform(): DiagnosticCheck {
  const { node } = process.versions;
  const message = `sluice ${manifest.version} on Node.js ${node}, ${process.platform} ${process.arch}`;
  if (Number.parseInt(node, 10) >= REQUIRED_NODE) return { name: 'command line', status: 'ok', message };
  return { name: 'command line', status: 'failed', message, remedy: `Install Node.js ${REQUIRED_NODE} or later` };
}

async function checkService({ connect, options }: Context): Promise<DiagnosticCheck[]> {
  const { host } = options();
  try {
    const client = await connect();
    const { version, checks } = await unwrap(client.POST('/api/v1/diagnostics'));
    const isSame = version === manifest.version;
    return [
      {
        name: 'management API',
        status: isSame ? 'ok' : 'warning',
        message: `${host} is Sluice ${version}`,
        ...(!isSame && { remedy: `Use the command line of the same version; this one is ${manifest.version}` }),
      },
      ...checks,
    ];
  } catch (error) {
    const { message, notes } = explainError(error, host);
    const remedy = notes[0] ?? 'Check --host, that the service runs, and its log';
    return [{ name: 'management API', status: 'failed', message, remedy }];
  }
}

async function checkMcpListener(mcpUrl: string | undefined, { terminal, options }: Context): Promise<DiagnosticCheck> {
  const name = 'MCP listener';
  const global = options();
  try {
    const { origin, href } = resolveEndpoint({ mcpUrl, namespace: 'default' }, global.host, terminal.env);
    const send = await createFetch(global, terminal);
    const response = await send(new Request(href, { method: 'OPTIONS', redirect: 'manual' }));
    await response.body?.cancel();
    if (response.status < 400) return { name, status: 'ok', message: `${origin} responds` };
    return {
      name,
      status: 'failed',
      message: `${origin} responds with status ${response.status} to OPTIONS of an endpoint`,
      remedy: 'Check --mcp-url, and that a proxy passes all paths and methods',
    };
  } catch (error) {
    const remedy = 'Use --mcp-url if the listener has another address';
    if (error instanceof Failure) return { name, status: 'warning', message: error.message, remedy };
    return { name, status: 'failed', message: explainError(error, global.host).message, remedy };
  }
}

const MARKS = { ok: ['ok', 'green'], warning: ['warning', 'yellow'], failed: ['failed', 'red'] } as const;

function print(checks: readonly DiagnosticCheck[], { output, terminal, options }: Context): void {
  const out = output();
  const style = createStyle(terminal.stdout, terminal, options().plain);
  out.list(
    checks,
    [
      { title: 'CHECK', value: ({ name }) => name },
      { title: 'STATUS', value: ({ status }) => style(MARKS[status][1], MARKS[status][0]) },
      { title: 'RESULT', value: ({ message }) => message },
    ],
    'no checks',
  );
  if (out.format !== 'table') return;
  for (const { name, remedy } of checks) if (remedy !== undefined) out.done({}, `${name}: ${remedy}`);
}
