import type { RecordedCompletion } from '../../inference/exchange-recording.ts';
import type { InteractionRecorder } from '../../inference/recorder.ts';
import type { Filter } from '../chain.ts';

/** What the filter works with. */
export interface InterceptParts {
  readonly recorder: Pick<InteractionRecorder, 'begin'>;
}

/** Has completions recorded that pass by the `load_balancer` behind it (decisions 1.4, 4.8). */
export function serviceIntercept({ recorder }: InterceptParts): Filter {
  return (context) => {
    const { method, path, headers, observation } = context;
    const told = observation && ((completion: RecordedCompletion) => observation.completed(completion));
    context.recording = () => recorder.begin(method, path, headers, told);
    return undefined;
  };
}
