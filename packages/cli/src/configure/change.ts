import { realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { type Namespace, namespaceName } from '@sluice/contract';
import { ApiError, unwrap } from '@sluice/contract/client';
import { connect } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { resolveEndpoint } from '../mcp/target.ts';
import { createStyle, requireConfirmation } from '../terminal/terminal.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { type ConfigurationFile, readConfigurationFile } from './configuration-file.ts';
import { formatDiff } from './diff.ts';
import { JsoncError } from './jsonc.ts';
import { type HostEnvironment, PROGRAMS, type Program, type Scope } from './programs.ts';
import { removeEntry, setEntry } from './server-entry.ts';

const DEADLINE_MS = 2000;

/**
 * The namespace as the service reports it, or that it does not exist. Undefined when the request fails: a client may be
 * configured before the service runs, or without administrative access.
 */
async function findNamespace(
  context: Context,
  name: string,
  withoutCredentials: boolean,
): Promise<Namespace | 'missing' | undefined> {
  const anonymous = () => connect({ ...context.options(), auth: { kind: 'none' } }, context.terminal);
  try {
    const client = await (withoutCredentials ? anonymous() : context.connect().catch(anonymous));
    const params = { path: { name } };
    return await unwrap(client.GET('/api/v1/namespaces/{name}', { params, signal: AbortSignal.timeout(DEADLINE_MS) }));
  } catch (error) {
    return error instanceof ApiError && error.code === 'NOT_FOUND' ? 'missing' : undefined;
  }
}

/** Options of `sluice configure`, as they are given. */
export interface ConfigureOptions {
  readonly namespace: string;
  readonly mcpUrl?: string;
  readonly name?: string;
  readonly scope: Scope;
  readonly file?: string;
  readonly remove?: true;
  readonly dryRun?: true;
  readonly yes?: true;
}

/** A token that is only a reference, which the client resolves. */
const TOKEN_REFERENCE = /^\$\{[^}]+\}$/;

/**
 * Prints the change of a client's configuration, asks for confirmation and writes it. Throws `Failure` when the file
 * cannot be changed, there is no terminal, or the user declines.
 */
export async function changeConfiguration(
  context: Context,
  programName: string,
  options: ConfigureOptions,
): Promise<void> {
  const { terminal } = context;
  const program = PROGRAMS.find(({ name }) => name === programName);
  if (program === undefined) throw new Failure(`${programName}: not a program that can be configured`);
  const namespace = parseNamespace(options.namespace);
  const entryPath = { servers: program.servers, name: parseServerName(options.name ?? defaultName(namespace)) };
  const file = await readConfigurationFile(await configurationPath(program, options, hostEnvironment(context)));
  if (options.scope === 'project' && options.file === undefined) await requireInside(terminal.cwd, file);
  const displayPath = sanitizeLine(file.target);
  const { auth, host } = context.options();
  const token = auth.kind === 'token' && auth.from === 'option' ? auth.token : undefined;
  const isReference = token !== undefined && TOKEN_REFERENCE.test(token);
  const known = options.remove ? undefined : await findNamespace(context, namespace, isReference);
  const published = known === 'missing' ? undefined : known?.mcpUrl;
  const endpoint = {
    url: resolveEndpoint({ namespace, mcpUrl: options.mcpUrl, published }, host, terminal.env),
    authorization: token === undefined ? undefined : `Bearer ${token}`,
  };

  const edited = () =>
    options.remove
      ? removeEntry(file.text, entryPath)
      : setEntry(file.text, entryPath, (existing) => program.entry(endpoint, existing));
  const after = withFilePosition(file.path, edited);
  const output = context.output();
  const result = { program: program.name, file: file.target, server: entryPath.name, url: endpoint.url.href };
  if (after === file.text) {
    const state = options.remove ? 'does not have' : 'has';
    output.done(
      { ...result, change: 'none' },
      `Nothing to do: ${displayPath} ${state} "${entryPath.name}" ${options.remove ? '' : 'already'}`.trim(),
    );
    return;
  }

  if (known === 'missing') {
    terminal.stderr.write(
      `warning: ${sanitizeLine(`${host} has no namespace "${namespace}" yet: run "sluice namespaces create ${namespace}"`)}\n`,
    );
  }
  if (!options.remove && token !== undefined && !(isReference && program.reference !== undefined)) {
    terminal.stderr.write(`warning: ${sanitizeLine(plainTextWarning(program, options))}\n`);
  }
  // stdout is reserved for the JSON or YAML result.
  const screen = output.isStructured ? terminal.stderr : terminal.stdout;
  const style = createStyle(screen, terminal, context.options().plain);
  screen.write(formatDiff(file.target, file.exists, [file.text, after], entryPath, style));
  if (options.dryRun) {
    output.done({ ...result, change: 'planned' }, 'Not written (--dry-run)');
    return;
  }
  if (!options.yes) await confirmChange(context, displayPath);
  await file.replace(after);
  output.done(
    { ...result, change: 'written' },
    `Updated ${displayPath}. ${options.remove ? program.nextStepAfterRemoval : program.nextStep}`,
  );
}

async function confirmChange({ terminal }: Context, path: string): Promise<void> {
  if (!terminal.stdin.isTerminal) {
    throw new Failure(`no terminal for a confirmation: use --yes to change ${path}, or --dry-run to print the change`);
  }
  await requireConfirmation(`Change ${path}?`, terminal.stdin);
}

/** A symbolic link in a checked-out project may lead anywhere. */
async function requireInside(folder: string, { path, target }: ConfigurationFile): Promise<void> {
  const relativePath = relative(await realpath(folder), target);
  if (relativePath !== '..' && !relativePath.startsWith(`..${sep}`) && !isAbsolute(relativePath)) return;
  throw new Failure(`${path} leads out of the project, to ${target}; use --file to change that file`);
}

function withFilePosition(path: string, edit: () => string): string {
  try {
    return edit();
  } catch (error) {
    if (!(error instanceof JsoncError)) throw error;
    throw new Failure(`${path}:${error.line}:${error.column}: ${error.message}; the file was not changed`);
  }
}

function hostEnvironment({ terminal: { env, cwd } }: Context): HostEnvironment {
  return { platform: process.platform, env, home: env.HOME || homedir(), cwd };
}

async function configurationPath(
  program: Program,
  { file, scope }: ConfigureOptions,
  around: HostEnvironment,
): Promise<string> {
  if (file !== undefined) return resolve(around.cwd, file);
  const path = program.files[scope];
  if (path === undefined) throw new Failure(`--scope ${scope}: ${program.title} has no configuration in this scope`);
  return resolve(around.cwd, await path(around));
}

function parseNamespace(text: string): string {
  const { success, data, error } = namespaceName.safeParse(text);
  if (!success) throw new Failure(`--namespace "${text}": ${error.issues[0]?.message}`);
  return data;
}

/** One name per namespace, so that several can be configured in one client. */
function defaultName(namespace: string): string {
  return namespace === 'default' ? 'sluice' : `sluice-${namespace}`;
}

function parseServerName(name: string): string {
  if (/^[\w-]{1,64}$/.test(name)) return name;
  throw new Failure(`--name "${name}": must be 1 to 64 letters, digits, hyphens and underscores`);
}

function plainTextWarning({ title, name, reference }: Program, { scope, file }: ConfigureOptions): string {
  const shared = scope === 'project' && file === undefined ? ', which others may get with the project' : '';
  const instead = reference === undefined ? '' : `; ${title} also takes a reference: --token '${reference}'`;
  return `the token is stored in plain text in the configuration of ${name}${shared}${instead}`;
}
