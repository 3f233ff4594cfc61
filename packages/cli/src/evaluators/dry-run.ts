import type { DryRunResult } from '@sluice/contract';
import { type components, unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { collectValue } from '../entries/entry-options.ts';
import { Failure } from '../failure.ts';
import { readDocument, validated } from '../files/document.ts';
import { toolArguments } from '../mcp/arguments.ts';
import { parseEvaluators } from './read-evaluators.ts';

interface DryRunOptions {
  readonly file?: string;
  readonly method?: string;
  readonly tool?: string;
  readonly param?: readonly string[];
  readonly params?: string;
  readonly namespace?: string;
  readonly conversation?: string;
  readonly answer?: string;
}

/** `sluice evaluators dry-run`: shows what an evaluator would decide about a request. */
export function dryRunCommand(context: Context): Command {
  return new Command('dry-run')
    .description('Evaluate a request with one evaluator, without enforcing or storing anything')
    .argument('<evaluator>', 'Name of the evaluator')
    .option(
      '-f, --file <file>',
      'File with the evaluator, in JSON or YAML; - for stdin (default: the active evaluators)',
    )
    .option('--method <method>', 'MCP method of the request (default: that of the trigger)')
    .option('--tool <name>', 'Name of the called tool')
    .option(
      '-p, --param <key=value>',
      'Argument of the tool, or parameter of another method; may be repeated',
      collectValue,
    )
    .option('--params <json>', 'Arguments or parameters as a JSON object')
    .option('-N, --namespace <namespace>', 'Namespace of the request (default: that of the trigger, else default)')
    .option('--conversation <id>', 'Conversation whose history is available')
    .option('--answer <text>', 'Answer to evaluate instead of calling the LLM')
    .addHelpText(
      'after',
      `
Examples:
  sluice evaluators dry-run guard --tool transfer -p amount=5000 --answer UNSAFE
  sluice evaluators dry-run guard -f evaluators.yaml --tool transfer -p amount=5000`,
    )
    .action(async (name: string, options: DryRunOptions) => {
      const { file, tool, param = [], params: given, conversation, answer } = options;
      const client = await context.connect();
      const evaluators =
        file === undefined ? await unwrap(client.GET('/api/v1/evaluators')) : await fromFile(context, file);
      const evaluator = evaluators.find((each) => each.name === name);
      if (!evaluator) throw new Failure(`no evaluator "${name}" in ${file ?? 'the active evaluators'}`);
      const method = options.method ?? evaluator.trigger.method;
      const args = await toolArguments(param, given, undefined, context.terminal.cwd);
      const params = tool === undefined ? args : { name: tool, arguments: args };
      const request = {
        method,
        namespace: options.namespace ?? evaluator.trigger.namespace ?? 'default',
        params,
        ...(conversation !== undefined && { conversation_id: conversation }),
      };
      const body = { evaluator, request, ...(answer !== undefined && { answer }) };
      const input = await validated(({ dryRunInput }) => dryRunInput, body, 'dry run');
      const result = await unwrap(client.POST('/api/v1/evaluators/dry-run', { body: input }));
      const output = context.output();
      if (output.isStructured) return output.payload(result);
      output.show(summaryOf(result));
    });
}

type Evaluator = components['schemas']['Evaluator'];

async function fromFile(context: Context, file: string): Promise<readonly Evaluator[]> {
  return (await parseEvaluators(await readDocument(file, context.terminal), file)).evaluators;
}

/** The members that a person needs, most important ones first. */
function summaryOf({
  verdict,
  rejected,
  matches,
  reason,
  llm,
  action,
  log,
  copies,
  tools,
  metadata,
}: Omit<DryRunResult, 'error'>) {
  return {
    verdict,
    rejected,
    'trigger matches': matches,
    ...(reason !== undefined && { reason }),
    ...(tools && { tools }),
    ...(metadata && { metadata }),
    ...(llm && { answer: llm.answer, 'llm calls': llm.calls, 'llm ms': llm.duration_ms }),
    ...(llm?.schema_error !== undefined && { 'schema error': llm.schema_error }),
    ...(action && { 'action ms': action.duration_ms }),
    ...(action?.memory_bytes !== undefined && {
      'action memory': `${Math.round(action.memory_bytes / 1024 / 1024)} MiB`,
    }),
    ...(log.length > 0 && { log: log.map(({ level, message }) => `${level}: ${message}`) }),
    ...(copies.length > 0 && { copies: copies.map(({ tool, namespace }) => `${tool} to ${namespace}`) }),
  };
}
