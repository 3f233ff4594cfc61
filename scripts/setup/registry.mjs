// Whether npm's registry can be reached with npm's settings: environment, then the .npmrc files of project, user and machine.
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** npm fails to reach a registry only after minutes. */
const TIMEOUT_MS = 60;

/**
 * @typedef {object} NpmSettings
 * @property {URL} registry
 * @property {URL | undefined} proxy that requests to the registry pass
 * @property {boolean} isOffline
 */

/**
 * Reads the settings that decide how npm reaches its registry.
 * @param {NodeJS.ProcessEnv} env
 * @param {string} root folder of the project
 * @returns {NpmSettings}
 */
export function npmSettings(env, root) {
  const files = [
    join(root, '.npmrc'),
    env.npm_config_userconfig ?? join(homedir(), '.npmrc'),
    env.npm_config_globalconfig ?? '/etc/npmrc',
  ].map((path) => readSettings(path, env));
  /** @param {string} name */
  const setting = (name) =>
    variable(env, `npm_config_${name.replaceAll('-', '_')}`) ||
    files.map((settings) => settings.get(name)).find((value) => value) ||
    undefined;
  const registry = parseUrl(setting('registry')) ?? new URL('https://registry.npmjs.org/');
  const isSecure = registry.protocol === 'https:';
  const proxy =
    (isSecure ? setting('https-proxy') || variable(env, 'https_proxy') : undefined) ||
    setting('proxy') ||
    variable(env, isSecure ? 'proxy' : 'http_proxy');
  const excluded = (setting('noproxy') || variable(env, 'no_proxy') || '').split(/[\s,]+/).filter(Boolean);
  return {
    registry,
    proxy: excluded.some((suffix) => isWithin(registry.hostname, suffix)) ? undefined : parseUrl(proxy),
    isOffline: setting('offline') === 'true',
  };
}

/**
 * Returns why the registry, or the proxy in front of it, cannot be reached; undefined if it can, or if that is not known within
 * a moment.
 * @param {NpmSettings} settings
 * @returns {Promise<string | undefined>}
 */
export function registryProblem({ registry, proxy }) {
  const { protocol, hostname, port, host } = proxy ?? registry;
  return new Promise((resolve) => {
    const socket = connect({
      host: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port) || (protocol === 'https:' ? 443 : 80),
    });
    /** @param {string} [problem] */
    const finish = (problem) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(problem);
    };
    const timer = setTimeout(finish, TIMEOUT_MS);
    socket.on('connect', () => finish());
    socket.on('error', (/** @type {NodeJS.ErrnoException} */ { code }) =>
      finish(
        `${proxy ? `the proxy ${host} of the npm registry` : `the npm registry ${host}`} cannot be reached (${code})`,
      ),
    );
  });
}

/**
 * @param {NodeJS.ProcessEnv} env
 * @param {string} name in lower case
 */
function variable(env, name) {
  return env[name] || env[name.toUpperCase()] || undefined;
}

/**
 * Reads a .npmrc file; empty if there is none.
 * @param {string} path
 * @param {NodeJS.ProcessEnv} env
 * @returns {Map<string, string>}
 */
function readSettings(path, env) {
  /** @type {Map<string, string>} */
  const settings = new Map();
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return settings;
  }
  for (const line of text.split('\n')) {
    const [, name, value] = /^\s*([\w-]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined) continue;
    const plain = value.replace(/^(["'])(.*)\1$/, '$2');
    settings.set(
      name,
      plain.replace(/\$\{(\w+)\}/g, (whole, reference) => env[reference] ?? whole),
    );
  }
  return settings;
}

/** @param {string | undefined} text */
function parseUrl(text) {
  try {
    return text === undefined ? undefined : new URL(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {string} host
 * @param {string} suffix as in NO_PROXY
 */
function isWithin(host, suffix) {
  const domain = suffix.replace(/^\*?\./, '');
  return suffix === '*' || host === domain || host.endsWith(`.${domain}`);
}
