import type { InteractionRecorder } from '../../inference/recorder.ts';
import type { Filter } from '../chain.ts';

/** What the filter works with. */
export interface InterceptParts {
  readonly recorder: Pick<InteractionRecorder, 'begin'>;
}

/** Has completions recorded that pass by the `load_balancer` behind it (decisions 1.4, 4.8). */
export function serviceIntercept({ recorder }: InterceptParts): Filter {
  return (context) => {
    const { method, path, headers } = context;
    context.recording = () => recorder.begin(method, path, headers);
    return undefined;
  };
}
