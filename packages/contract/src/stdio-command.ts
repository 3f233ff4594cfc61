/** Port of the bridge in examples. */
const BRIDGE_PORT = 3002;

/** Address of a bridge that {@link bridgeCommand} starts. */
export const BRIDGE_ADDRESS = `http://127.0.0.1:${BRIDGE_PORT}/mcp`;

/** What to do about a command in place of an address. The command itself may contain credentials. */
export const BRIDGE_HINT =
  `a server that is started with a command (stdio) needs a bridge: run ${bridgeCommand('COMMAND')}, and use ` +
  `${BRIDGE_ADDRESS} (docs/other-transports.md)`;

/** Whether a text that is not a URL is the command of a server with the stdio transport. */
export function isStdioCommand(text: string): boolean {
  if (/^stdio:/i.test(text)) return true;
  if (/^[a-z][a-z\d+.-]*:\/\//i.test(text)) return false;
  return /^(?:npx|uvx|uv|node|bunx|deno|python3?|docker)(?:\s|$)|^(?:\.{1,2}|~)?\/|^\S+\s+-/.test(text);
}

/** The command that serves a server with the stdio transport over Streamable HTTP (docs/other-transports.md). */
export function bridgeCommand(command: string): string {
  return `npx -y mcp-proxy --host 127.0.0.1 --port ${BRIDGE_PORT} --server stream -- ${command}`;
}
