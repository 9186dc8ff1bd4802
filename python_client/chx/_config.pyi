class Config:
    fallback: str

config: Config
