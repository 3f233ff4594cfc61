import { INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import { rpcError } from '../../answer/outcome.ts';
import type { CallRelay } from '../../forwards/relay.ts';
import { expandPrompt } from '../../mcp/local-prompt.ts';
import type { Filter } from '../chain.ts';

/** `prompts/get`: relayed to the forward that brought the prompt, or made here from a hand-made one (decisions 2.7). */
export function servicePromptGet(relay: CallRelay): Filter {
  return (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || message.method !== 'prompts/get' || !namespace) return undefined;
    const { name } = message.params;
    if (typeof name !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: name');
    const prompt = namespace.shelves.prompt.get(name);
    if (!prompt) return rpcError(INVALID_PARAMS, `prompt not found: ${name}`);
    if (context.observation) context.observation.subject = { kind: 'prompt', name: prompt.name };
    const { discovered } = prompt;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry: prompt, discovered });
    const expanded = expandPrompt(prompt, message.params.arguments);
    if ('missing' in expanded) return rpcError(INVALID_PARAMS, `missing required argument: ${expanded.missing}`);
    return { kind: 'result', json: resultText(context.era, expanded.result) };
  };
}
