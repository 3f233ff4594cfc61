import type { DiagnosticCheck } from '@sluice/contract';
import { ApiError, unwrap } from '@sluice/contract/client';
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

interface DoctorOptions {
  readonly mcpUrl?: string;
  readonly serviceConfig?: string;
  readonly pipelineConfig?: string;
}

/** `sluice doctor`: checks this machine, the service and everything that it depends on. */
export function doctorCommand(context: Context): Command {
  return new Command('doctor')
    .description('Check the service and what it depends on (exit code 1 if anything must be fixed)')
    .option('--mcp-url <url>', 'MCP listener (env: SLUICE_MCP_URL; default: the port after that of --host)')
    .option('--service-config <file>', 'Service file of "sluice serve", for a service that does not run')
    .option('--pipeline-config <file>', 'Pipeline file of "sluice serve", for a service that does not run')
    .addHelpText(
      'after',
      `
Checks names, connections and certificates of all configured addresses, from the machine of the service, and the ports,
configuration files, registry folder, limits, clock, proxy headers and evaluators of the service. Sends no credentials to
these addresses, except to forwards that are not available, which are tested like "sluice forwards test". If no service runs
on this computer, checks whether one could start: its environment, files and ports.

Examples:
  sluice doctor --output json
  sluice doctor --service-config service.yaml`,
    )
    .action(async ({ mcpUrl, ...files }: DoctorOptions) => {
      const { isAbsent, checks: service } = await checkService(context);
      const checks = [
        checkPlatform(),
        ...service,
        await checkMcpListener(mcpUrl, context),
        ...(isAbsent ? await checkStart(files, context) : []),
      ];
      print(checks, context);
      if (checks.some(({ status }) => status === 'failed')) throw new Exit(1);
    });
}

/** Checks whether a service could start on this computer, if it is the one that does not respond. */
async function checkStart(
  { serviceConfig, pipelineConfig }: DoctorOptions,
  { terminal, options }: Context,
): Promise<DiagnosticCheck[]> {
  const { hostname } = new URL(options().host);
  if (!/^(?:localhost|127\.|\[::1\]$)/.test(hostname)) return [];
  const { checkStart: check } = await import('@sluice/server/preflight');
  const argv = [
    ...(serviceConfig === undefined ? [] : [`--service-config=${serviceConfig}`]),
    ...(pipelineConfig === undefined ? [] : [`--pipeline-config=${pipelineConfig}`]),
  ];
  return check(argv, terminal.env, terminal.cwd);
}

function checkPlatform(): DiagnosticCheck {
  const { node } = process.versions;
  const message = `sluice ${manifest.version} on Node.js ${node}, ${process.platform} ${process.arch}`;
  if (Number.parseInt(node, 10) >= REQUIRED_NODE) return { name: 'command line', status: 'ok', message };
  return { name: 'command line', status: 'failed', message, remedy: `Install Node.js ${REQUIRED_NODE} or later` };
}

interface ServiceChecks {
  /** Whether no service responds, nor a proxy in front of one. */
  readonly isAbsent: boolean;
  readonly checks: readonly DiagnosticCheck[];
}

async function checkService({ connect, options }: Context): Promise<ServiceChecks> {
  const name = 'management API';
  const { host } = options();
  try {
    const client = await connect();
    const { version, checks } = await unwrap(client.POST('/api/v1/diagnostics'));
    const isSame = version === manifest.version;
    const own: DiagnosticCheck = {
      name,
      status: isSame ? 'ok' : 'warning',
      message: `${host} is Sluice ${version}`,
      ...(!isSame && { remedy: `Use the command line of the same version; this one is ${manifest.version}` }),
    };
    return { isAbsent: false, checks: [own, ...checks] };
  } catch (error) {
    const { message, notes } = explainError(error, host);
    const remedy = notes[0] ?? 'Check --host, that the service runs, and its log';
    const isAnotherServer = error instanceof ApiError && error.code === undefined && [404, 405].includes(error.status);
    return {
      isAbsent: isAnotherServer || !(error instanceof ApiError),
      checks: [{ name, status: 'failed', message, remedy }],
    };
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
