import type { AnswerTarget } from '../answer/answer-target.ts';

/** In the place of a client that has left, where what it asked for goes on: takes everything, and nobody hears of it. */
export class DepartedClient implements AnswerTarget {
  readonly destroyed = true;
  headersSent = false;
  writableEnded = false;

  writeHead(): void {
    this.headersSent = true;
  }

  write(): boolean {
    return true;
  }

  end(): void {
    this.writableEnded = true;
  }

  cork(): void {}

  destroy(): void {}

  /** That it has left is told whoever asks, as of a client that leaves later: not before they are ready for it. */
  on(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'close') process.nextTick(listener);
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    this.on(event, listener);
  }
}
