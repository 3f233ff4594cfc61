import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { type handleServerStreamingCall, type ServerWritableStream, status } from '@grpc/grpc-js';
import { startCode } from './code-process.ts';
import type { CodeExecutionReply, CodeExecutionRequest } from './messages.ts';

/** Executions at the same time; more are refused. */
const AT_ONCE = 4;
/** Characters that an execution may put out. */
const MAX_OUTPUT = 1024 * 1024;

type Call = ServerWritableStream<CodeExecutionRequest, CodeExecutionReply>;
type OutputType = CodeExecutionReply['outputType'];
type Status = CodeExecutionReply['status'];

/** Why code was ended before it ended itself. */
interface Ended {
  readonly status: 'FAILED' | 'TIMEOUT';
  readonly exitCode: number;
  readonly why: string;
}

/**
 * Runs code and tells what it puts out as it comes: STATUS/PENDING, STATUS/RUNNING, STDOUT and STDERR, and COMPLETION
 * with status and exit code at the end.
 */
export function executeCode(): handleServerStreamingCall<CodeExecutionRequest, CodeExecutionReply> {
  let running = 0;
  return (call) => {
    if (running === AT_ONCE) {
      call.emit('error', { code: status.RESOURCE_EXHAUSTED, details: `${AT_ONCE} executions are running; try later` });
      return;
    }
    running++;
    execute(call)
      // Arguments or environment are too long for a process, or the system has no more processes to give.
      .catch((error: unknown) => end(call, { status: 'FAILED', exitCode: 2, why: `not run: ${error}` }))
      .finally(() => {
        running--;
        call.end();
      });
  };
}

async function execute(call: Call): Promise<void> {
  tell(call, 'STATUS', 'PENDING');
  const { timeout } = call.request;
  const child = startCode(call.request);
  child.once('spawn', () => tell(call, 'STATUS', 'RUNNING'));
  let ended: Ended | undefined;
  const stop = (how: Ended): void => {
    ended ??= how;
    child.kill('SIGKILL');
  };
  call.on('cancelled', () => {
    child.kill('SIGKILL');
    // Nobody reads the rest of it.
    child.stdout.destroy();
    child.stderr.destroy();
  });
  const late = setTimeout(
    () => stop({ status: 'TIMEOUT', exitCode: 124, why: `ended: it took longer than ${timeout} ms` }),
    timeout,
  );
  passOn(call, child, () =>
    stop({ status: 'FAILED', exitCode: 1, why: `ended: it put out more than ${MAX_OUTPUT} characters` }),
  );
  try {
    // Not before its output has been read to the end.
    await once(child, 'close');
  } finally {
    clearTimeout(late);
  }
  if (ended) return end(call, ended);
  const { exitCode, signalCode } = child;
  // As a shell counts what a signal has ended.
  const code = exitCode ?? 128 + (signalCode ? constants.signals[signalCode] : 0);
  tell(call, 'COMPLETION', code === 0 ? 'COMPLETED' : 'FAILED', [], code);
}

/** Passes on what comes, no faster than the caller reads: the code waits instead of filling our memory. */
function passOn(call: Call, { stdout, stderr }: ChildProcessWithoutNullStreams, tooMuch: () => void): void {
  let characters = 0;
  for (const [stream, outputType] of [[stdout, 'STDOUT'] as const, [stderr, 'STDERR'] as const]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      characters += text.length;
      if (characters > MAX_OUTPUT) return tooMuch();
      if (tell(call, outputType, 'RUNNING', [text])) return;
      stream.pause();
      call.once('drain', () => stream.resume());
    });
  }
}

function end(call: Call, { status: how, exitCode, why }: Ended): void {
  tell(call, 'STDERR', how, [`${why}\n`], exitCode);
  tell(call, 'COMPLETION', how, [], exitCode);
}

/** Sends a reply; false when the caller has some way to go before the next one. */
function tell(call: Call, outputType: OutputType, how: Status, content: readonly string[] = [], exitCode = 0): boolean {
  if (call.cancelled) return true;
  return call.write({ isError: false, content, outputType, status: how, exitCode, timestamp: Date.now() });
}
