import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { CodeExecutionRequest } from './messages.ts';
import { environmentOf, SANDBOX } from './sandbox.ts';
import type { ToolDefinition } from './tools.ts';

/** What the service executes; a tool names it in its uri. */
export const LANGUAGE = 'javascript';

/**
 * The tool that agents have code run with, by the engine of this name. What these arguments become, Sluice decides; it
 * decodes Base64, too.
 */
export function runJavascript(engine: string): ToolDefinition {
  return {
    name: 'run-javascript',
    description: 'Runs JavaScript in a process of its own, without files or network, and answers with its output.',
    uri: `code-execution-engine://${engine}/${LANGUAGE}`,
    input_schema: {
      type: 'object',
      properties: {
        code: { type: 'string', description: 'A script or a module, plain or in Base64' },
        arguments: {
          type: ['array', 'object'],
          description: 'A list: process.argv from 2 on. An object: --name=value',
        },
        environment: { type: 'object', description: 'process.env' },
        timeout: { type: 'integer', description: 'Milliseconds, 1 to 300000; 30000 when absent' },
      },
      required: ['code'],
    },
  };
}

/** Starts code in a Node.js of its own, in the {@link SANDBOX}. Throws when the system refuses the process. */
export function startCode({
  code,
  arguments: given,
  environment,
}: CodeExecutionRequest): ChildProcessWithoutNullStreams {
  // The code comes on standard input (`-`): for a command line it may be too long, and those are there for all to read.
  const child = spawn(process.execPath, [...SANDBOX, '-', ...commandLine(given)], {
    cwd: '/',
    env: environmentOf(environment),
  });
  // A process that is gone before it has read all of it says so itself.
  child.stdin.on('error', () => undefined).end(code);
  return child;
}

/** `arg0`, `arg1` and so on, which a list came as, by their numbers; others as `--name=value`. */
function commandLine(given: CodeExecutionRequest['arguments']): string[] {
  const numbered = Object.keys(given).filter((name) => /^arg\d+$/.test(name));
  const inOrder = numbered.sort((a, b) => Number(a.slice(3)) - Number(b.slice(3)));
  const named = Object.entries(given).filter(([name]) => !numbered.includes(name));
  return [...inOrder.map((name) => given[name] ?? ''), ...named.map(([name, value]) => `--${name}=${value}`)];
}
