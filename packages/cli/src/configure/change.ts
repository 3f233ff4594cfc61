import { realpath } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { namespaceName } from '@sluice/contract';
import { connect } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { isNewNamespace } from '../entries/lookup.ts';
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
 * Whether the service says that there is no such namespace. False too when it cannot be asked: that a program is
 * configured before the service runs, or by somebody who may not administer it, is nothing to talk about.
 */
export async function isMissingNamespace(
  context: Context,
  name: string,
  withoutCredentials: boolean,
): Promise<boolean> {
  const anonymous = () => connect({ ...context.options(), auth: { kind: 'none' } }, context.terminal);
  try {
    const client = await (withoutCredentials ? anonymous() : context.connect().catch(anonymous));
    return await isNewNamespace(client, name, AbortSignal.timeout(DEADLINE_MS));
  } catch {
    return false;
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

/** What a token is that only refers to one: the client program puts the real one in its place. */
const TOKEN_REFERENCE = /^\$\{[^}]+\}$/;

/**
 * Shows what would change in the configuration of a client program, asks, and changes it. Throws `Failure` when it cannot
 * be changed, nobody can be asked, or the person does not want it.
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
  const place = { servers: program.servers, name: parseServerName(options.name ?? defaultName(namespace)) };
  const file = await readConfigurationFile(await configurationPath(program, options, hostEnvironment(context)));
  if (options.scope === 'project' && options.file === undefined) await requireInside(terminal.cwd, file);
  const shownPath = sanitizeLine(file.target);
  const { auth, host } = context.options();
  const token = auth.kind === 'token' && auth.from === 'option' ? auth.token : undefined;
  const endpoint = {
    url: resolveEndpoint({ namespace, mcpUrl: options.mcpUrl }, host, terminal.env),
    authorization: token === undefined ? undefined : `Bearer ${token}`,
  };

  const edited = () =>
    options.remove
      ? removeEntry(file.text, place)
      : setEntry(file.text, place, (existing) => program.entry(endpoint, existing));
  const after = withFilePosition(file.path, edited);
  const output = context.output();
  const result = { program: program.name, file: file.target, server: place.name, url: endpoint.url.href };
  if (after === file.text) {
    const state = options.remove ? 'does not have' : 'has';
    output.done(
      { ...result, change: 'none' },
      `Nothing to do: ${shownPath} ${state} "${place.name}" ${options.remove ? '' : 'already'}`.trim(),
    );
    return;
  }

  const isReference = token !== undefined && TOKEN_REFERENCE.test(token);
  if (!options.remove && (await isMissingNamespace(context, namespace, isReference))) {
    terminal.stderr.write(
      `warning: ${host} has no namespace "${namespace}" yet: sluice namespaces create ${namespace}\n`,
    );
  }
  if (!options.remove && token !== undefined && !(isReference && program.reference !== undefined)) {
    terminal.stderr.write(`warning: ${plainTextWarning(program, options)}\n`);
  }
  // Where the result is for a program, what people are to see goes elsewhere.
  const screen = output.format === 'json' ? terminal.stderr : terminal.stdout;
  const style = createStyle(screen, terminal, context.options().plain);
  screen.write(formatDiff(file.target, file.exists, [file.text, after], place, style));
  if (options.dryRun) {
    output.done({ ...result, change: 'planned' }, 'Nothing was written (--dry-run).');
    return;
  }
  if (!options.yes) await confirmChange(context, shownPath);
  await file.replace(after);
  output.done({ ...result, change: 'written' }, `Written: ${shownPath}. ${program.nextStep}`);
}

async function confirmChange({ terminal }: Context, path: string): Promise<void> {
  if (!terminal.stdin.isTerminal) {
    throw new Failure(`${path} belongs to another program: give --yes to change it, or --dry-run to see the change`);
  }
  await requireConfirmation(`Change ${path}?`, terminal.stdin);
}

/** A link that came with a project may lead anywhere. */
async function requireInside(folder: string, { path, target }: ConfigurationFile): Promise<void> {
  const inside = relative(await realpath(folder), target);
  if (inside !== '..' && !inside.startsWith(`..${sep}`) && !isAbsolute(inside)) return;
  throw new Failure(`${path} leads out of the project, to ${target}; give that as --file to change it`);
}

function withFilePosition(path: string, edit: () => string): string {
  try {
    return edit();
  } catch (error) {
    if (!(error instanceof JsoncError)) throw error;
    throw new Failure(`${path}:${error.line}:${error.column}: ${error.message}; the file was left as it is`);
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
  if (path === undefined) throw new Failure(`--scope ${scope}: ${program.title} has no such configuration`);
  return resolve(around.cwd, await path(around));
}

function parseNamespace(text: string): string {
  const { success, data, error } = namespaceName.safeParse(text);
  if (!success) throw new Failure(`--namespace "${text}": ${error.issues[0]?.message}`);
  return data;
}

/** Several namespaces can be servers of the same program, so each has a name of its own. */
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
  return `the token stands in plain text in the configuration of ${name}${shared}${instead}`;
}
