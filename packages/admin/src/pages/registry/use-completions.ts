import { useCallback, useEffect, useRef } from 'react';
import { useApi } from '../../api/api.ts';
import { connectMcp, type McpConnection } from '../../api/mcp.ts';
import type { Complete } from './argument-fields.tsx';

/** A prompt, or a resource template. */
type Reference =
  | { readonly type: 'ref/prompt'; readonly name: string }
  | { readonly type: 'ref/resource'; readonly uri: string };

/**
 * Returns a function that asks for completions of arguments as an MCP client of the namespace would, over one connection that
 * ends with the component. Upstreams need not offer any, so that an error is no more than none.
 */
export function useCompletions(namespace: string, reference: Reference): Complete {
  const { base } = useApi();
  const connection = useRef<Promise<McpConnection>>(undefined);
  const ended = useRef<AbortController>(undefined);
  useEffect(() => {
    ended.current = new AbortController();
    return () => {
      ended.current?.abort();
      void connection.current?.then(({ close }) => close()).catch(() => undefined);
      connection.current = undefined;
    };
  }, []);
  return useCallback(
    async (argument, others, signal) => {
      try {
        connection.current ??= connectMcp(base, namespace, ended.current?.signal ?? signal).catch((error) => {
          connection.current = undefined;
          throw error;
        });
        const { client } = await connection.current;
        const context = Object.keys(others).length > 0 && { context: { arguments: others } };
        const { completion } = await client.complete({ ref: reference, argument, ...context }, { signal });
        return completion.values;
      } catch {
        return [];
      }
    },
    [base, namespace, reference],
  );
}
