/** Members that tell capability services apart (decisions 2.2). */
export interface ServiceKey {
  readonly name: string;
  readonly serviceType: string;
  readonly serviceSubType?: string | undefined;
  readonly languageName?: string | undefined;
}

/** The key of a capability service as one text. */
export function serviceId({ name, serviceType, serviceSubType, languageName }: ServiceKey): string {
  return JSON.stringify([name, serviceType, serviceSubType ?? null, languageName ?? null]);
}
