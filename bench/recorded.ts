import { createHash } from 'node:crypto';
import type { Caller } from './caller.ts';
import type { Gateway } from './gateway.ts';
import { at, parseJson } from './json.ts';
import { completionId } from './stream-events.ts';

/** What one completion should have been recorded as. */
export interface Expected {
  /** The `user` of the request. */
  readonly user: string;
  /** SHA-256 of the text that the client read. */
  readonly digest: unknown;
  readonly tokens: number;
}

/** How many interactions have to be there. */
export interface Count {
  readonly all: number;
  /** Of these at most so many whose clients left before they had the whole answer. */
  readonly left: number;
}

/** Has the gateway forget what it recorded. */
export async function forgetRecorded(caller: Caller, gateway: Gateway): Promise<void> {
  const { status, body } = await caller.delete(new URL('/api/v1/interactions', gateway.management));
  if (status !== 200) throw new Error(`DELETE /api/v1/interactions: status ${status}: ${body.slice(0, 200)}`);
}

/**
 * Compares what the gateway recorded with what clients read: every completion that they read whole is there once, as
 * they read it.
 *
 * @throws Error when one is missing, cut, or not what the client read
 */
export async function checkRecorded(
  caller: Caller,
  gateway: Gateway,
  expected: readonly Expected[],
  { all, left }: Count,
): Promise<void> {
  // The recorder works behind the answer: the last ones are there a moment after their clients have them.
  const list = await gateway.child.until(`it had recorded ${all} interactions`, 10_000, async () => {
    const { body } = await caller.get(new URL('/api/v1/interactions', gateway.management));
    const data = at(parseJson(body), 'data');
    return Array.isArray(data) && data.length >= all ? data : undefined;
  });
  if (list.length !== all) throw new Error(`${list.length} interactions were recorded and not ${all}`);
  const byUser = new Map(expected.map((each) => [each.user, each]));
  const userOf = (interaction: unknown) => String(at(interaction, 'request_body', 'user'));
  const isRight = (interaction: unknown) => {
    const each = byUser.get(userOf(interaction));
    return each !== undefined && isWhole(interaction, each);
  };
  const others = list.filter((interaction: unknown) => !isRight(interaction));
  if (others.length > left) {
    const first = JSON.stringify(others[0]).slice(-600);
    throw new Error(`${others.length} of ${all} interactions are not what the client read, the first: ...${first}`);
  }
  const distinct = new Set(list.filter(isRight).map(userOf));
  if (all > 0 && distinct.size !== expected.length) {
    throw new Error(`of ${expected.length} different completions only ${distinct.size} were recorded`);
  }
}

function isWhole(interaction: unknown, { user, digest, tokens }: Expected): boolean {
  const choice = at(interaction, 'response_body', 'choices', 0);
  return (
    at(interaction, 'completion_id') === completionId(user) &&
    at(interaction, 'status_code') === 200 &&
    at(interaction, 'request_truncated') === undefined &&
    at(interaction, 'response_truncated') === undefined &&
    at(interaction, 'response_body', 'usage', 'completion_tokens') === tokens &&
    at(choice, 'finish_reason') === 'stop' &&
    textDigest(String(at(choice, 'message', 'content'))) === digest
  );
}

/** As the digests of streams are made. */
export const textDigest = (text: string): string => createHash('sha256').update(text).digest('hex');
