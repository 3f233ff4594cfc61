import { readsStreams } from '@sluice/protocol/mcp/era';
import type { Batch } from '@sluice/protocol/mcp/message';
import type { AnswerTarget } from '../answer/answer-target.ts';
import { BatchAnswer } from '../answer/batch-answer.ts';
import { RequestContext } from '../pipeline/context.ts';

/** Runs the chain for one message and writes the outcome to its target. */
type Serve = (context: RequestContext, target: AnswerTarget) => void;

/**
 * Carries out a batch (2025-03-26, "Batching"; mcp 6): each message goes through the chain from its beginning, as if it
 * had come alone with the headers of the batch, so that nothing is judged less for being in one. They are begun in their
 * order and none waits for another. `context` is that of the batch as a whole.
 */
export function serveBatch(context: RequestContext, batch: Batch, response: AnswerTarget, serve: Serve): void {
  const { method, path, headers, responseHeaders } = context;
  const { messages, asks } = batch;
  const answer = new BatchAnswer(response, responseHeaders, {
    size: messages.length,
    asks,
    streams: readsStreams(headers.accept),
  });
  for (const text of messages) {
    const observation = context.observation?.member();
    const part = new RequestContext(method, path, headers, Buffer.from(text), observation, true);
    part.scheme = context.scheme;
    const member = answer.member(part);
    if (observation) member.once('close', () => observation.end(member.status, member.writableEnded));
    serve(part, member);
  }
}
