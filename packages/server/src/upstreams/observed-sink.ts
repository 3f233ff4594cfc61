import type { CallObserver } from '../telemetry/call-observer.ts';
import { NO_CONTENT } from '../telemetry/tool-calls/event.ts';
import { CLIENT_CANCELED } from './in-flight-calls.ts';
import { type CallOutcome, ForwardingSink, type ResponseSink } from './response-sink.ts';

/** Records how a call ends: in events, metrics and the span of its request upstream. */
export class ObservedSink extends ForwardingSink {
  readonly #observer: CallObserver;
  #isComplete = false;

  constructor(inner: ResponseSink, observer: CallObserver) {
    super(inner);
    this.#observer = observer;
  }

  override get observer(): CallObserver {
    return this.#observer;
  }

  /** Only the first outcome counts. A client that waits need not wait for what is recorded. */
  override complete(outcome: CallOutcome): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    const respondsFirst = this.isAwaited;
    if (!respondsFirst) record(this.#observer, outcome);
    try {
      super.complete(outcome);
    } finally {
      if (respondsFirst) record(this.#observer, outcome);
    }
  }
}

function record(observer: CallObserver, outcome: CallOutcome): void {
  const { report } = outcome;
  if (report) {
    if ('category' in report) observer.failed(report.category, report.message, report.errorType);
    else observer.completed(report.isError, report.content);
    return;
  }
  switch (outcome.kind) {
    case 'response':
    case 'large':
    case 'sent':
      return observer.responded(outcome.value);
    case 'result':
      return observer.completed(false, NO_CONTENT);
    case 'failed':
      return observer.failed('UNKNOWN', outcome.error.message, '_OTHER');
    case 'canceled':
      return observer.canceled(CLIENT_CANCELED);
  }
}
