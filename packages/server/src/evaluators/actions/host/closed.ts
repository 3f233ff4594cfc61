import { registerHooks } from 'node:module';

/**
 * Takes away what would lead out of a script, should one ever run in the process's own realm: the permission to read the
 * host's files, imports, built-in modules, signals, bindings and the globals of Node.js. Called before anything of a
 * component comes in.
 */
export function close(): void {
  const { permission } = process;
  registerHooks({
    resolve(specifier) {
      throw new Error(`import of ${specifier} is refused`);
    },
  });
  permission?.drop('fs.read');
  for (const name of [
    'kill',
    '_kill',
    'binding',
    '_linkedBinding',
    'dlopen',
    'getBuiltinModule',
    'abort',
    'execve',
    'loadEnvFile',
    'chdir',
    'umask',
    'setuid',
    'mainModule',
    'report',
    'permission',
    '_debugProcess',
    '_debugEnd',
    '_startProfilerIdleNotifier',
  ]) {
    Reflect.deleteProperty(process, name);
  }
  for (const name of [
    'fetch',
    'WebSocket',
    'EventSource',
    'XMLHttpRequest',
    'Request',
    'Response',
    'BroadcastChannel',
    'MessageChannel',
    'require',
    'module',
  ]) {
    Reflect.deleteProperty(globalThis, name);
  }
}
