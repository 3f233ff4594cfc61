import { z } from 'zod';
import { InvalidSettingError, type Setting } from '../setting.ts';

/** A text that is a setting's value, as an environment variable has it; what is wrong with it is said in its words. */
export function settingText<T>({ parse, accepts }: Setting<T>) {
  return z.string().transform((text, { addIssue }): T => {
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof InvalidSettingError)) throw error;
      addIssue({ code: 'custom', message: `${error.message}; accepted: ${accepts}` });
      return z.NEVER;
    }
  });
}
