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

/** What `sluice action build` takes. */
const SOURCE_EXTENSION = /^\.[cm]?[jt]sx?$/;

/** `sluice action test`: one run of an action in the host that the service has, with what files say. */
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
        throw new Failure(`${file} is a source: sluice action build ${file} makes ${made} of it, which can be tested`);
      }
      const component = await readFile(resolve(terminal.cwd, file)).catch((error: unknown) => {
        throw new Failure(`${file}: ${errorReason(error) ?? 'cannot be read'}`, { cause: error });
      });
      const given = await readContext(options.context, terminal);
      await using schema = await readResultSchema(options.schema, terminal);
      const world = {
        tools: options.tools === undefined ? [] : await readTools(options.tools, terminal),
        namespace: given.namespace,
        history: options.history === undefined ? [] : await readHistory(options.history, terminal),
        conversationId: given.conversationId,
        verify: schema.verify,
      };
      const answers = new TestHost(world);

      // The host takes a moment to load.
      const { ActionCompileError, ActionCompiler, ActionFailure, ActionHosts, withoutEffect } = await import(
        '@sluice/server/actions'
      );
      const compiler = new ActionCompiler();
      const hosts = new ActionHosts({ size: 1 });
      try {
        const action = await compiler.compile(component);
        const run = await hosts.run(action, given, answers);
        // What a request costs: a host process knows its actions, and in the first run it does not yet.
        const again = await hosts.run(action, given, new TestHost(world)).catch(() => run);
        const ignored = withoutEffect(run.response, given.method);
        printResult(context, answers, { run, ignored, usualMs: again.durationMs });
      } catch (error) {
        if (error instanceof ActionCompileError) {
          throw new Failure(`${file} is no action: ${error.message}`, { cause: error });
        }
        if (!(error instanceof ActionFailure)) throw error;
        printResult(context, answers, { failure: error });
        throw new Exit(1);
      } finally {
        await Promise.all([compiler.close(), hosts.close()]);
      }
    });
}

type TestResult =
  | {
      readonly run: ActionRun;
      /** Why the service would do nothing of what was decided. */
      readonly ignored: string | undefined;
      readonly usualMs: number;
      readonly failure?: never;
    }
  | { readonly run?: never; readonly failure: Pick<ActionFailure, 'fault' | 'message'> };

function printResult({ terminal, output }: Context, { lines, copies }: TestHost, ended: TestResult): void {
  const out = output();
  const { run, failure } = ended;
  if (out.format === 'json') {
    const how = run
      ? {
          decision: run.response ?? { kind: 'pass' },
          responded: run.response !== undefined,
          without_effect: ended.ignored,
          ignored_responses: run.ignoredResponses,
          duration_ms: ended.usualMs,
          first_duration_ms: run.durationMs,
        }
      : { failure: { fault: failure.fault, message: failure.message } };
    // What was copied by a run that failed is not kept.
    return out.json({ ...how, copies: run ? copies : [], log: lines });
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
  if (ended.ignored !== undefined) out.done({}, `without effect: ${ended.ignored}`);
  const others = run.ignoredResponses;
  if (others > 0) out.done({}, `without effect: ${others} other ${others === 1 ? 'call' : 'calls'} of a response`);
  out.done({}, `time: ${ended.usualMs.toFixed(1)} ms (${run.durationMs.toFixed(1)} ms in a new host process)`);
}

function formatDecision(response: ActionResponse | undefined): string {
  if (response === undefined) return 'pass (no response was called)';
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
      return `filter tools: ${response.tools.join(', ') || 'none is left'}`;
    case 'set_metadata':
      return `set metadata: ${response.key} = ${response.value}`;
  }
}
