import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { type handleServerStreamingCall, type ServerWritableStream, status } from '@grpc/grpc-js';
import { startCode } from './code-process.ts';
import type { CodeExecutionReply, CodeExecutionRequest } from './messages.ts';

/** Maximum number of concurrent executions. */
const MAX_EXECUTIONS = 4;
/** Maximum output of an execution in characters. */
const MAX_OUTPUT = 1024 * 1024;

type Call = ServerWritableStream<CodeExecutionRequest, CodeExecutionReply>;
type OutputType = CodeExecutionReply['outputType'];
type Status = CodeExecutionReply['status'];

/** Reason why code was terminated. */
interface Termination {
  readonly status: 'FAILED' | 'TIMEOUT';
  readonly exitCode: number;
  readonly reason: string;
}

/**
 * Runs code and streams its output: STATUS/PENDING, STATUS/RUNNING, STDOUT and STDERR, and COMPLETION with status and exit
 * code at the end.
 */
export function executeCode(): handleServerStreamingCall<CodeExecutionRequest, CodeExecutionReply> {
  let running = 0;
  return (call) => {
    if (running === MAX_EXECUTIONS) {
      call.emit('error', {
        code: status.RESOURCE_EXHAUSTED,
        details: `${MAX_EXECUTIONS} executions are running; retry later`,
      });
      return;
    }
    running++;
    execute(call)
      // Arguments or environment are too long, or the process limit of the system is reached.
      .catch((error: unknown) =>
        replyTermination(call, { status: 'FAILED', exitCode: 2, reason: `failed to start: ${error}` }),
      )
      .finally(() => {
        running--;
        call.end();
      });
  };
}

async function execute(call: Call): Promise<void> {
  reply(call, 'STATUS', 'PENDING');
  const { timeout } = call.request;
  const child = startCode(call.request);
  child.once('spawn', () => reply(call, 'STATUS', 'RUNNING'));
  let terminated: Termination | undefined;
  const stop = (termination: Termination): void => {
    terminated ??= termination;
    child.kill('SIGKILL');
  };
  call.on('cancelled', () => {
    child.kill('SIGKILL');
    // Discards further output.
    child.stdout.destroy();
    child.stderr.destroy();
  });
  const timer = setTimeout(
    () => stop({ status: 'TIMEOUT', exitCode: 124, reason: `terminated: timeout of ${timeout} ms exceeded` }),
    timeout,
  );
  forwardOutput(call, child, () =>
    stop({ status: 'FAILED', exitCode: 1, reason: `terminated: output exceeds ${MAX_OUTPUT} characters` }),
  );
  try {
    // Emitted after all output has been read.
    await once(child, 'close');
  } finally {
    clearTimeout(timer);
  }
  if (terminated) return replyTermination(call, terminated);
  const { exitCode, signalCode } = child;
  // Exit code for signals, as in shells.
  const code = exitCode ?? 128 + (signalCode ? constants.signals[signalCode] : 0);
  reply(call, 'COMPLETION', code === 0 ? 'COMPLETED' : 'FAILED', [], code);
}

/** Forwards output with backpressure: the code waits for a slow caller instead of filling memory. */
function forwardOutput(call: Call, { stdout, stderr }: ChildProcessWithoutNullStreams, onOverflow: () => void): void {
  let characters = 0;
  for (const [stream, outputType] of [[stdout, 'STDOUT'] as const, [stderr, 'STDERR'] as const]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      characters += text.length;
      if (characters > MAX_OUTPUT) return onOverflow();
      if (reply(call, outputType, 'RUNNING', [text])) return;
      stream.pause();
      call.once('drain', () => stream.resume());
    });
  }
}

function replyTermination(call: Call, { status, exitCode, reason }: Termination): void {
  reply(call, 'STDERR', status, [`${reason}\n`], exitCode);
  reply(call, 'COMPLETION', status, [], exitCode);
}

/** Sends a reply. Returns false if the write buffer is full. */
function reply(
  call: Call,
  outputType: OutputType,
  executionStatus: Status,
  content: readonly string[] = [],
  exitCode = 0,
): boolean {
  if (call.cancelled) return true;
  return call.write({ isError: false, content, outputType, status: executionStatus, exitCode, timestamp: Date.now() });
}
