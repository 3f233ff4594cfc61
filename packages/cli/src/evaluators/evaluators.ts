import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { validated } from '../files/document.ts';
import { sanitizeLine } from '../terminal/text.ts';
import { dryRunCommand } from './dry-run.ts';
import { applyCommand, EVALUATOR_COLUMNS, revisionsCommand } from './revisions.ts';

/** `bind <namespace> <conversation-id>`. */
function bindCommand(context: Context): Command {
  return new Command('bind')
    .description('Bind a namespace to a conversation until the service stops')
    .argument('<namespace>', 'Name of the namespace, which need not exist')
    .argument('<conversation-id>', 'Conversation of requests that name none')
    .action(async (named: string, conversation: string) => {
      const namespace = await validated(({ namespaceName }) => namespaceName, named, 'namespace');
      const client = await context.connect();
      const bound = await unwrap(
        client.PUT('/api/v1/evaluators/namespaces/{namespace}', {
          params: { path: { namespace } },
          body: { conversation_id: conversation },
        }),
      );
      context.output().done(bound, `bound namespace ${bound.namespace} to conversation ${bound.conversation_id}`);
    });
}

/** `unbind <namespace>`. */
function unbindCommand(context: Context): Command {
  return new Command('unbind')
    .description('Unbind a namespace from its conversation')
    .argument('<namespace>', 'Name of the namespace')
    .action(async (named: string) => {
      const namespace = await validated(({ namespaceName }) => namespaceName, named, 'namespace');
      const client = await context.connect();
      const params = { path: { namespace } };
      const { unbound } = await unwrap(client.DELETE('/api/v1/evaluators/namespaces/{namespace}', { params }));
      context.output().done({ unbound }, `unbound namespace ${unbound}`);
    });
}

/** `bindings`; prints the object of the API as JSON or YAML. */
function bindingsCommand(context: Context): Command {
  return new Command('bindings')
    .description('List the namespaces that are bound to a conversation')
    .action(async () => {
      const client = await context.connect();
      const found = await unwrap(client.GET('/api/v1/evaluators/namespaces'));
      context.output().list(
        Object.entries<string>(found),
        [
          { title: 'NAMESPACE', value: ([namespace]) => namespace, cut: 'never' },
          { title: 'CONVERSATION', value: ([, conversation]) => conversation, cut: 'never' },
        ],
        'no bindings',
        { payload: found },
      );
    });
}

/** `sluice evaluators`. */
export function evaluatorsCommand(context: Context): Command {
  return new Command('evaluators')
    .description('Manage evaluators (trigger, LLM prompt, WASM action)')
    .addCommand(getCommand(context))
    .addCommand(applyCommand(context))
    .addCommand(dryRunCommand(context))
    .addCommand(connectionsCommand(context))
    .addCommand(bindCommand(context))
    .addCommand(unbindCommand(context))
    .addCommand(bindingsCommand(context))
    .addCommand(revisionsCommand(context));
}

function getCommand(context: Context): Command {
  return new Command('get').description('List the active evaluators in execution order').action(async () => {
    const client = await context.connect();
    context.output().list(await unwrap(client.GET('/api/v1/evaluators')), EVALUATOR_COLUMNS, 'no evaluators');
    const { data } = await client.GET('/api/v1/evaluators/revisions/active');
    for (const name of data?.data.skipped ?? []) {
      const warning = `warning: evaluator ${name} was skipped and is not active: run apply to see why`;
      context.terminal.stderr.write(`${sanitizeLine(warning)}\n`);
    }
  });
}

function connectionsCommand(context: Context): Command {
  return new Command('connections').description('List the LLM connections that evaluators can use').action(async () => {
    const client = await context.connect();
    context
      .output()
      .list(
        await unwrap(client.GET('/api/v1/evaluators/llm-connections')),
        [{ title: 'CONNECTION', value: (name) => name, cut: 'never' }],
        'no LLM connections',
      );
  });
}
