import type { Client } from '@modelcontextprotocol/client';

/** Is told how far a call is. */
export type OnProgress = (progress: {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}) => void;

/** Calls a tool; all text of its result. Throws for a result that says that the tool failed. */
export async function callText(
  client: Client,
  name: string,
  args: Record<string, unknown>,
  onprogress?: OnProgress,
): Promise<string> {
  const result = await client.callTool({ name, arguments: args }, onprogress && { onprogress });
  const text = result.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  if (result.isError === true) throw new Error(`tools/call ${name}: ${text}`);
  return text;
}
