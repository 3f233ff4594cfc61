import { namespaceName } from '@sluice/contract';
import { unwrap } from '@sluice/contract/client';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { validated } from '../files/checked.ts';

/** `bind <namespace> <conversation-id>`. */
export function bindCommand(context: Context): Command {
  return new Command('bind')
    .description('Bind a namespace to a conversation until the service stops')
    .argument('<namespace>', 'Name of the namespace, which need not exist')
    .argument('<conversation-id>', 'Conversation of requests that name none')
    .action(async (named: string, conversation: string) => {
      const namespace = validated(namespaceName, named, 'namespace');
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
export function unbindCommand(context: Context): Command {
  return new Command('unbind')
    .description('Unbind a namespace from its conversation')
    .argument('<namespace>', 'Name of the namespace')
    .action(async (named: string) => {
      const namespace = validated(namespaceName, named, 'namespace');
      const client = await context.connect();
      const params = { path: { namespace } };
      const { unbound } = await unwrap(client.DELETE('/api/v1/evaluators/namespaces/{namespace}', { params }));
      context.output().done({ unbound }, `unbound namespace ${unbound}`);
    });
}

/** `bindings`: with `--output json` an object, as the API answers it. */
export function bindingsCommand(context: Context): Command {
  return new Command('bindings')
    .description('List the namespaces that are bound to a conversation')
    .action(async () => {
      const client = await context.connect();
      const found = await unwrap(client.GET('/api/v1/evaluators/namespaces'));
      const output = context.output();
      if (output.format === 'json') return output.json(found);
      output.list(
        Object.entries<string>(found),
        [
          { title: 'NAMESPACE', value: ([namespace]) => namespace, cut: 'never' },
          { title: 'CONVERSATION', value: ([, conversation]) => conversation, cut: 'never' },
        ],
        'no namespace is bound',
      );
    });
}
