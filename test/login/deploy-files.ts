import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The folder of the deployment files of the login. */
export const LOGIN_FOLDER: string = join(import.meta.dirname, '../../deploy/login');

/** Environment variables. */
export type Variables = Readonly<Record<string, string>>;

/** Names of containers in the deployment files, and the addresses of a test in their place: `sluice:8081`. */
export type Hosts = Readonly<Record<string, string>>;

/** Reads an environment file of the deployment, with its hosts replaced: nothing else differs from the deployment. */
export async function readDeployFile(name: string, hosts: Hosts = {}): Promise<Variables> {
  return replaceHosts(parseVariables(await readFile(join(LOGIN_FOLDER, name), 'utf8')), hosts);
}

/** Parses an environment file: `NAME=value`, values without quotes, comments in lines of their own. */
function parseVariables(text: string): Variables {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}

function replaceHosts(variables: Variables, hosts: Hosts): Variables {
  const replace = (value: string) =>
    Object.entries(hosts).reduce((text, [host, address]) => text.replaceAll(host, address), value);
  return Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, replace(value)]));
}

/** Makes secrets as the deployment does, in a file that must not exist, and returns them. */
export async function makeSecrets(file: string): Promise<Variables> {
  await promisify(execFile)(join(LOGIN_FOLDER, 'make-secrets.sh'), [file]);
  return parseVariables(await readFile(file, 'utf8'));
}
