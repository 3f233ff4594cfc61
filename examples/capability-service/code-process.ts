import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { CodeExecutionRequest } from './messages.ts';
import { SANDBOX_FLAGS, sandboxEnvironment } from './sandbox.ts';
import type { ToolDefinition } from './tools.ts';

/** Language of the engine, part of the tool's URI. */
export const LANGUAGE = 'javascript';

/** Returns the tool that runs code with this engine. Sluice maps its arguments to the request and decodes Base64. */
export function runJavascript(engine: string): ToolDefinition {
  return {
    name: 'run-javascript',
    description: 'Runs JavaScript in a separate process without file or network access and returns its output.',
    uri: `code-execution-engine://${engine}/${LANGUAGE}`,
    input_schema: {
      type: 'object',
      properties: {
        code: { type: 'string', description: 'Script or module, plain or Base64' },
        arguments: {
          type: ['array', 'object'],
          description: 'List for process.argv, or object for --name=value',
        },
        environment: { type: 'object', description: 'process.env' },
        timeout: { type: 'integer', description: 'Milliseconds, 1 to 300000 (default 30000)' },
      },
      required: ['code'],
    },
  };
}

/** Starts code in a separate Node.js process with the {@link SANDBOX_FLAGS}. Throws if the process cannot be created. */
export function startCode({
  code,
  arguments: given,
  environment,
}: CodeExecutionRequest): ChildProcessWithoutNullStreams {
  // Passed on stdin (`-`): command lines are limited in length and visible to other users.
  const child = spawn(process.execPath, [...SANDBOX_FLAGS, '-', ...commandLine(given)], {
    cwd: '/',
    env: sandboxEnvironment(environment),
  });
  // A process that exits early reports it by its exit code.
  child.stdin.on('error', () => undefined).end(code);
  return child;
}

/** Returns `arg0`, `arg1` and so on (from a list) in order, others as `--name=value`. */
function commandLine(given: CodeExecutionRequest['arguments']): string[] {
  const numbered = Object.keys(given).filter((name) => /^arg\d+$/.test(name));
  const positional = numbered.sort((a, b) => Number(a.slice(3)) - Number(b.slice(3)));
  const named = Object.entries(given).filter(([name]) => !numbered.includes(name));
  return [...positional.map((name) => given[name] ?? ''), ...named.map(([name, value]) => `--${name}=${value}`)];
}
