from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("fleet", "0002_heard_and_swept")]

    operations = [migrations.DeleteModel(name="Breaker")]
