import { BRIDGE_ADDRESS, bridgeCommand, isStdioCommand } from '@sluice/contract/stdio-command';
import { Failure } from './failure.ts';

/**
 * Error for a text that is no URL of an MCP server. If it is the command of a server (stdio), the notes are the two
 * commands that make the server available; `use` returns the second one.
 */
export function notAnUpstreamUrl(text: string, problem: string, use: (address: string) => string): Failure {
  if (!isStdioCommand(text)) return new Failure(problem);
  const notes = [bridgeCommand(text.replace(/^stdio:(?:\/\/)?/i, '')), use(BRIDGE_ADDRESS)];
  return new Failure(`${problem}. A server that is started with a command (stdio) needs a bridge:`, { notes });
}
