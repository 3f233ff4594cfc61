import { randomUUID } from 'node:crypto';
import type { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { MODERN } from '../fixtures/raw-client.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import { ask, type Reading } from './event-reader.ts';

/** What a client does with a call of its own that is parked. */
export type Treatment =
  /** Answers all questions and waits for the result. */
  | 'answering'
  /** The same, in pieces. */
  | 'in pieces'
  /** The same, with two equal retries at once. */
  | 'twice'
  /** The same, after others have tried to have it. */
  | 'robbed'
  /** Comes back when it is too late. */
  | 'late'
  /** Leaves in the middle of its retry. */
  | 'leaving';

/** What the clients of a run have seen and done. */
export class ParkedWitness {
  calls = 0;
  /** Calls that were answered with what their own client had said. */
  answered = 0;
  /** Requests answered that input is needed. */
  rounds = 0;
  /** Calls that waited for too long, and calls whose client left. */
  expired = 0;
  left = 0;
  /** Calls that the upstream was told to cancel. */
  cancelled = 0;
  /** Retries of others, and with altered states, that were refused; and those whose call was not held. */
  refused = 0;
  notHeld = 0;
  /** Milliseconds from a retry to its answer, of calls whose upstream goes on at once. */
  readonly times: number[] = [];
  /** A line for everything that must not be; only the first are kept. */
  readonly wrong: string[] = [];

  reject(line: string): void {
    if (this.wrong.length < 50) this.wrong.push(line);
  }
}

/** One answer: a JSON-RPC response. */
interface Answer {
  readonly status: number;
  readonly result: Record<string, unknown>;
  readonly error: Record<string, unknown>;
  readonly text: string;
}

/** Where and as whom requests are sent. */
export interface Standing {
  readonly url: string;
  readonly user: string;
}

/** How long any request may take, in milliseconds. */
const LIMIT_MS = 60_000;
/** When a client leaves, in milliseconds after its retry; and what its upstream takes by then at least. */
const LEAVES_MS = { least: 200, most: 1_000 };
const PAUSE_MS = 3_000;
const CAPABILITIES = '{"elicitation":{"form":{}}}';

/** One call of a modern client's, of the tool `question`, from its first request to its end. */
export class ParkedClient {
  readonly #agent: Agent;
  readonly #witness: ParkedWitness;
  readonly #standing: Standing;
  readonly #treatment: Treatment;
  readonly #tag: string;
  readonly #arguments: string;
  readonly #secrets: Record<string, string> = {};
  #id = 0;
  #asked: Answer | undefined = undefined;

  constructor(agent: Agent, witness: ParkedWitness, standing: Standing, treatment: Treatment) {
    this.#agent = agent;
    this.#witness = witness;
    this.#standing = standing;
    this.#treatment = treatment;
    this.#tag = randomUUID();
    const rounds = 1 + Math.floor(Math.random() * 3);
    const questions = 1 + Math.floor(Math.random() * 2);
    const pauseMs = treatment === 'leaving' ? PAUSE_MS : 0;
    this.#arguments = JSON.stringify({ tag: this.#tag, rounds, questions, pauseMs });
  }

  /** Makes the call; resolves when it is parked. */
  async begin(): Promise<void> {
    this.#witness.calls++;
    const answer = await this.#send(this.#standing, this.#params());
    this.#noted(answer);
  }

  /** Treats the call as it is to be treated, to its end. `timeoutMs` is how long it is held. */
  async finish(others: readonly Standing[], timeoutMs: number): Promise<void> {
    if (!this.#asked) return;
    switch (this.#treatment) {
      case 'late':
        return this.#late(timeoutMs);
      case 'leaving':
        return this.#leave();
      case 'robbed':
        for (const other of others) await this.#rob(other);
        await this.#alter();
        break;
      case 'twice':
        await this.#twice();
        break;
      case 'in pieces':
        this.#noted(await this.#retry(this.#answers().slice(0, 1)));
        break;
      case 'answering':
        break;
      default:
        this.#treatment satisfies never;
    }
    while (this.#asked) {
      await delay(Math.random() * 200);
      const began = performance.now();
      const answer = await this.#retry(this.#answers());
      this.#witness.times.push(performance.now() - began);
      this.#noted(answer);
    }
  }

  /** Retries, and is to be told that the call is not held any more. The milliseconds that this took. */
  async findNotHeld(): Promise<number> {
    const began = performance.now();
    const answer = await this.#retry(this.#answers());
    if (isNotHeld(answer)) this.#witness.notHeld++;
    else this.#reject(`is not held, and was answered ${answer.text}`);
    return performance.now() - began;
  }

  /** Has another one try to go on with it. */
  async #rob(other: Standing): Promise<void> {
    this.#isRefused(await this.#send(other, this.#params(this.#answers())));
  }

  /** Tries with a state, and with arguments, that are not those of the call. */
  async #alter(): Promise<void> {
    const state = String(this.#asked?.result.requestState);
    const at = Math.floor(Math.random() * state.length);
    const altered = `${state.slice(0, at)}${state[at] === 'A' ? 'B' : 'A'}${state.slice(at + 1)}`;
    const params = this.#params(this.#answers());
    this.#isRefused(await this.#send(this.#standing, params.replace(state, altered)));
    this.#isRefused(await this.#send(this.#standing, params.replace('"rounds":', '"more":1,"rounds":')));
  }

  async #twice(): Promise<void> {
    const answers = this.#answers();
    const both = await Promise.all([this.#retry(answers), this.#retry(answers)]);
    const [held, ...more] = both.filter((answer) => !isNotHeld(answer));
    if (!held || more.length > 0) return this.#reject(`two retries were answered ${both.map(({ text }) => text)}`);
    this.#witness.notHeld++;
    this.#noted(held);
  }

  async #late(timeoutMs: number): Promise<void> {
    await delay(timeoutMs + Math.random() * 1_000);
    await this.findNotHeld();
    this.#witness.expired++;
  }

  async #leave(): Promise<void> {
    this.#witness.left++;
    const leaving = new AbortController();
    const reading = this.#post(this.#standing, this.#params(this.#answers()), undefined, leaving.signal);
    reading.catch(() => {});
    await delay(LEAVES_MS.least + Math.random() * (LEAVES_MS.most - LEAVES_MS.least));
    leaving.abort();
  }

  /** Takes the answer to the latest request: what is asked next, or the call's end. */
  #noted(answer: Answer): void {
    const { result, text } = answer;
    this.#asked = undefined;
    if (result.resultType === 'input_required') {
      this.#witness.rounds++;
      const foreign = this.#labels(answer).filter(([, label]) => !label.startsWith(`${this.#tag} `));
      if (foreign.length > 0) return this.#reject(`was asked what another call wants to know: ${text}`);
      this.#asked = answer;
      return;
    }
    const [block] = Array.isArray(result.content) ? result.content : [];
    const said = parseObject(parseObject(block).text);
    const same = JSON.stringify(Object.entries(said).sort()) === JSON.stringify(Object.entries(this.#secrets).sort());
    if (result.resultType === 'complete' && same) this.#witness.answered++;
    else this.#reject(`was answered ${text}, having said ${JSON.stringify(this.#secrets)}`);
  }

  #isRefused({ error, text }: Answer): void {
    if (error.code === -32602) this.#witness.refused++;
    else this.#reject(`a retry that is not its own was answered ${text}`);
  }

  /** The keys of what is asked, and what each question says. */
  #labels({ result }: Answer): [string, string][] {
    const requests = Object.entries(parseObject(result.inputRequests));
    return requests.map(([key, request]) => [key, String(parseObject(parseObject(request).params).message)]);
  }

  /** Answers to all that is asked, as members of `inputResponses`. */
  #answers(): string[] {
    if (!this.#asked) return [];
    return this.#labels(this.#asked).map(([key, label]) => {
      this.#secrets[label] ??= `${this.#tag} ${randomUUID()}`;
      const response = { action: 'accept', content: { answer: this.#secrets[label] } };
      return `${JSON.stringify(key)}:${JSON.stringify(response)}`;
    });
  }

  #retry(answers: readonly string[]): Promise<Answer> {
    return this.#send(this.#standing, this.#params(answers));
  }

  /** The params of a request; of a retry, where there are answers. */
  #params(answers?: readonly string[]): string {
    const members = [`"name":"question","arguments":${this.#arguments}`];
    if (answers) {
      members.push(`"inputResponses":{${answers.join(',')}}`);
      members.push(`"requestState":${JSON.stringify(this.#asked?.result.requestState)}`);
    }
    return members.join(',');
  }

  async #send(standing: Standing, params: string): Promise<Answer> {
    const response = Promise.withResolvers<string>();
    const late = setTimeout(() => response.reject(new Error(`no answer in ${LIMIT_MS} ms`)), LIMIT_MS);
    let last = '';
    try {
      const reading = await Promise.race([this.#post(standing, params, (data) => (last = data)), response.promise]);
      if (typeof reading === 'string') throw new Error('unreachable');
      reading.text.then((text) => response.resolve(text === '' ? last : text), response.reject);
      const text = await response.promise;
      const { result, error } = parseObject(text);
      return { status: reading.status, result: parseObject(result), error: parseObject(error), text };
    } finally {
      clearTimeout(late);
    }
  }

  #post(
    { url, user }: Standing,
    params: string,
    onData: (data: string) => void = () => {},
    signal?: AbortSignal,
  ): Promise<Reading> {
    const envelope =
      `"io.modelcontextprotocol/protocolVersion":"${MODERN}",` +
      `"io.modelcontextprotocol/clientCapabilities":${CAPABILITIES},"progressToken":"${this.#tag}"`;
    const body = `{"jsonrpc":"2.0","id":${++this.#id},"method":"tools/call","params":{${params},"_meta":{${envelope}}}}`;
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': MODERN,
      'mcp-method': 'tools/call',
      'mcp-name': 'question',
      'x-forwarded-user': user,
    };
    const asking = { url, agent: this.#agent, method: 'POST', headers, body, ...(signal && { signal }) } as const;
    return ask(asking, ({ data }) => data && onData(data));
  }

  #reject(what: string): void {
    this.#asked = undefined;
    this.#witness.reject(`a call that was ${this.#treatment}: ${what.slice(0, 1_000)}`);
  }
}

function isNotHeld({ error }: Answer): boolean {
  return error.code === -32603 && parseObject(error.data).kind === 'not_held';
}
