import { readFile } from 'node:fs/promises';
import { basename, extname, resolve } from 'node:path';
import type { ActionFailure, ActionResponse, ActionRun } from '@sluice/server/actions';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { errorReason } from '../files/system-error.ts';
import { sanitizeLine, sanitizeText } from '../terminal/text.ts';
import { TestHost } from './test-host.ts';
import { readContext, readHistory, readResultSchema, readTools } from './test-inputs.ts';

interface TestOptions {
  readonly context: string;
  readonly tools?: string;
  readonly history?: string;
  readonly schema?: string;
}

/** Extensions of files that `sluice action build` compiles. */
const SOURCE_EXTENSION = /^\.[cm]?[jt]sx?$/;

/** `sluice action test`: runs an action once in the host of the service, with inputs from files. */
export function testCommand(context: Context): Command {
  const { terminal } = context;
  return new Command('test')
    .description('Run an action once and print its decision')
    .argument('<component>', 'Component file (.wasm)')
    .requiredOption(
      '--context <file>',
      'Input of evaluate: method, namespace and, if any, toolName, arguments, llmResult, conversationId',
    )
    .option('--tools <file>', 'Registered tools, as printed by "sluice tools list --output json"')
    .option('--history <file>', 'Messages of the conversation: [{role, content}]')
    .option('--schema <file>', 'result_schema of the evaluator')
    .addHelpText(
      'after',
      `
The files are JSON or YAML. The action runs in the same sandbox as in the service.

Example:
  sluice action test my-action.wasm --context ctx.json --tools tools.json`,
    )
    .action(async (file: string, options: TestOptions) => {
      const ending = extname(file);
      if (SOURCE_EXTENSION.test(ending)) {
        const made = `${basename(file, ending)}.wasm`;
        throw new Failure(`${file} is a source file: run "sluice action build ${file}", then test ${made}`);
      }
      const component = await readFile(resolve(terminal.cwd, file)).catch((error: unknown) => {
        throw new Failure(`${file}: ${errorReason(error) ?? 'cannot be read'}`, { cause: error });
      });
      const input = await readContext(options.context, terminal);
      await using schema = await readResultSchema(options.schema, terminal);
      const inputs = {
        tools: options.tools === undefined ? [] : await readTools(options.tools, terminal),
        namespace: input.namespace,
        history: options.history === undefined ? [] : await readHistory(options.history, terminal),
        conversationId: input.conversationId,
        verify: schema.verify,
      };
      const host = new TestHost(inputs);

      // The host takes a moment to load.
      const { ActionCompileError, ActionCompiler, ActionFailure, SandboxPool, ignoredReason } = await import(
        '@sluice/server/actions'
      );
      const compiler = new ActionCompiler();
      const hosts = new SandboxPool({ size: 1 });
      try {
        const action = await compiler.compile(component);
        const run = await hosts.run(action, input, host);
        // The first run includes loading the action into the host process; the second shows the usual cost of a
        // request.
        const second = await hosts.run(action, input, new TestHost(inputs)).catch(() => run);
        const ignored = ignoredReason(run.response, input.method);
        printResult(context, host, { run, ignored, secondMs: second.durationMs });
      } catch (error) {
        if (error instanceof ActionCompileError) {
          throw new Failure(`${file} is not an action: ${error.message}`, { cause: error });
        }
        if (!(error instanceof ActionFailure)) throw error;
        printResult(context, host, { failure: error });
        throw new Exit(1);
      } finally {
        await Promise.all([compiler.close(), hosts.close()]);
      }
    });
}

type TestResult =
  | {
      readonly run: ActionRun;
      /** Reason why the service would ignore the decision. */
      readonly ignored: string | undefined;
      readonly secondMs: number;
      readonly failure?: never;
    }
  | { readonly run?: never; readonly failure: Pick<ActionFailure, 'fault' | 'message'> };

function printResult({ terminal, output }: Context, { lines, copies }: TestHost, ended: TestResult): void {
  const out = output();
  const { run, failure } = ended;
  if (out.isStructured) {
    const how = run
      ? {
          decision: run.response ?? { kind: 'pass' },
          responded: run.response !== undefined,
          without_effect: ended.ignored,
          ignored_responses: run.ignoredResponses,
          duration_ms: ended.secondMs,
          first_duration_ms: run.durationMs,
        }
      : { failure: { fault: failure.fault, message: failure.message } };
    // The copies of a failed run are discarded.
    return out.payload({ ...how, copies: run ? copies : [], log: lines });
  }
  for (const { level, message } of lines) {
    const [first = '', ...rest] = sanitizeText(message).split('\n');
    terminal.stdout.write(`${[`${level}: ${first}`, ...rest.map((line) => `  ${line}`)].join('\n')}\n`);
  }
  if (!run) {
    terminal.stderr.write(`sluice: the action failed (${failure.fault}): ${sanitizeLine(failure.message)}\n`);
    return;
  }
  for (const { tool, namespace } of copies) out.done({}, `copied: ${tool} to ${namespace}`);
  out.done({}, `decision: ${formatDecision(run.response)}`);
  if (ended.ignored !== undefined) out.done({}, `no effect: ${ended.ignored}`);
  const others = run.ignoredResponses;
  if (others > 0) out.done({}, `no effect: ${others} other response ${others === 1 ? 'call' : 'calls'}`);
  out.done({}, `time: ${ended.secondMs.toFixed(1)} ms (${run.durationMs.toFixed(1)} ms in a new host process)`);
}

function formatDecision(response: ActionResponse | undefined): string {
  if (response === undefined) return 'pass (no response called)';
  switch (response.kind) {
    case 'pass':
      return 'pass';
    case 'block':
      return `block: ${response.reason}`;
    case 'reject_malformed':
      return `reject as malformed: ${response.reason}`;
    case 'warn':
      return `warn: ${response.message}`;
    case 'filter_tools':
      return `filter tools: ${response.tools.join(', ') || 'none'}`;
    case 'set_metadata':
      return `set metadata: ${response.key} = ${response.value}`;
  }
}
